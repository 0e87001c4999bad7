//! A pool that leaves the number of rows a process open: one probe tells how long a step takes, then the worker
//! chooses.

use crate::channel::error::RequestError;
use crate::channel::request::Packing;
use crate::rows::error::RowError;
use crate::rows::pack::{Asked, Life};
use crate::shard::Shard;
use crate::starts::creation::Phase;
use crate::values::numbers;
use crate::values::packed::PackedReply;
use serde_json::json;

/// The pack whose identity and limits the probe has.
const PROBE: usize = 0;

/// A step that takes longer than this is not cheap, whatever it takes.
const MEASURE_MS: u64 = 5_000;

impl Shard {
    /// The way of starting is known: rows start, or the probe, or the worker has to choose.
    pub(crate) fn settle_packing(&mut self) {
        if self.settings.rows_per_process.is_some() {
            return self.start_packs(false);
        }
        self.enter(if self.settings.measure { Phase::Measure } else { Phase::AwaitPacking });
        if self.settings.measure {
            self.starts.clean.push_back(PROBE);
        }
    }

    fn start_packs(&mut self, measured: bool) {
        self.enter(Phase::Start);
        for number in 0..self.packs.len() {
            self.queue_start(number, measured && number == PROBE);
        }
    }

    /// The worker has chosen.
    pub(crate) fn choose_packing(&mut self, sequence: u32, request: &Packing) -> Result<(), RequestError> {
        let (phase, size) = (self.creation.as_ref().map(|creation| creation.phase), request.rows_per_process);
        if self.settings.rows_per_process.is_some() || !matches!(phase, Some(Phase::Template | Phase::AwaitPacking)) {
            return Err(RequestError::new(
                "conflict",
                "received pack, expected it once, after a start without rows_per_process and its event measured",
            ));
        }
        if size == 0 || size > self.settings.n {
            let n = self.settings.n;
            return Err(RequestError::invalid(format!("received rows_per_process {size}, expected 1 to {n}")));
        }
        self.settings.rows_per_process = Some(size);
        self.lay_out(size);
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        if phase == Some(Phase::AwaitPacking) {
            self.start_packs(self.settings.measure);
        }
        Ok(())
    }

    /// True for the process that is only measured.
    pub(crate) fn is_probe(&self, number: usize) -> bool {
        number == PROBE && self.creation.as_ref().is_some_and(|creation| creation.phase == Phase::Measure)
    }

    /// The probe has said hello: it is reset as a row would be.
    pub(crate) fn reset_probe(&mut self, number: usize) {
        let packable = self.creation.as_ref().is_some_and(|creation| creation.packable);
        if !packable {
            let reason = "the program does not announce the feature batch";
            return self.finish_probe(None, Some(reason.to_owned()));
        }
        self.packs[number].life = Life::Probe;
        let deadline_ms = self.settings.deadlines_ms.reset;
        let mut line = std::mem::take(&mut self.line);
        self.begin_line(number, &mut line);
        if self.is_packed(number) {
            line.extend_from_slice(
                br#","op":"reset","rows":null,"seeds":[0],"options":null,"hard":false,"deadline_ms":"#,
            );
            numbers::write_u64(&mut line, deadline_ms);
            line.extend_from_slice(b"}\n");
        } else {
            line.extend_from_slice(b",\"op\":\"reset\",\"seed\":0,\"options\":null}\n");
        }
        self.ask(number, Asked::Reset, &line, deadline_ms);
        self.line = line;
    }

    /// The probe said something; only the answer to what it was asked counts.
    pub(crate) fn probe_answered(&mut self, number: usize, reply: &PackedReply<'_>) {
        if reply.id != Some(self.packs[number].last_id) {
            return;
        }
        let asked = self.packs[number].asked;
        let errors = reply.errors.filter(|errors| errors.text != b"{}");
        if let Some(member) = reply.error.or(errors) {
            let what = String::from_utf8_lossy(member.text);
            return self.finish_probe(None, Some(format!("its {} failed: {what}", asked.op())));
        }
        if asked == Asked::Reset {
            let deadline_ms = (self.settings.deadlines_ms.reset + self.settings.deadlines_ms.step).min(MEASURE_MS);
            let mut line = std::mem::take(&mut self.line);
            self.packs[number].deadline_us = crate::rows::row::NEVER;
            self.begin_line(number, &mut line);
            line.extend_from_slice(b",\"op\":\"measure\"}\n");
            self.ask(number, Asked::Measure, &line, deadline_ms);
            self.line = line;
            return;
        }
        let step_us = reply.step_us.and_then(|member| numbers::parse_f64(member.text).ok());
        let reason = reply.reason.and_then(|member| serde_json::from_slice(member.text).ok());
        self.finish_probe(step_us.filter(|step_us| step_us.is_finite()), reason);
    }

    /// The probe came to nothing; the rows will show whether the program works at all.
    pub(crate) fn probe_failed(&mut self, _number: usize, error: &RowError) {
        let reason = format!("the probe failed in {}: {} ({})", error.op, error.message, error.kind.name());
        self.finish_probe(None, Some(reason));
    }

    /// Ends the probe and tells the worker what came of it.
    fn finish_probe(&mut self, step_us: Option<f64>, reason: Option<String>) {
        let packable = self.creation.as_ref().is_some_and(|creation| creation.packable);
        self.discard_process(PROBE);
        let identity = &self.packs[PROBE].identity;
        // What is left now goes when the first row starts in its place.
        let _ = self.isolation.kill_everything(identity);
        let _ = self.isolation.remove_workspace(identity);
        self.collect_exits();
        self.enter(Phase::AwaitPacking);
        let event = json!({"event": "measured", "step_us": step_us, "reason": reason, "packable": packable});
        self.worker.event(event.to_string().as_bytes());
    }

    fn enter(&mut self, phase: Phase) {
        if let Some(creation) = &mut self.creation {
            creation.phase = phase;
        }
    }
}
