//! `thaw`: the first request after an instant that was kept, in the machine it was taken of and in each made from it.

use super::{hooks, identity};
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct ThawRequest {
    /// Raised by every restore.
    generation: u64,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    machine_id: Option<String>,
    /// Another machine than the one whose instant it was.
    #[serde(default)]
    copy: bool,
    #[serde(default)]
    environ: Option<BTreeMap<String, String>>,
    /// For the kernel's generator, in base64.
    #[serde(default)]
    entropy: Option<String>,
}

impl Machine {
    /// Becomes who it is now. Once that is answered the silence ends.
    pub(in crate::machine) fn thaw(&mut self, request: ThawRequest) -> Result<Answered, RequestError> {
        if request.generation < self.generation {
            return Err(RequestError::invalid(format!(
                "generation is {}; this machine is at {} already, expected no less",
                request.generation, self.generation
            )));
        }
        let is_restored = request.generation > self.generation || request.copy;
        let mut warnings = Vec::new();
        let mut ran = Vec::new();
        if is_restored {
            self.new_connection();
            self.forget_early();
            self.generation = request.generation;
            warnings = self.become_restored(&request);
        }
        if request.copy {
            self.execs.all_copied();
            let (hooks, more) = hooks::run(request.generation, &self.settings.id);
            ran = hooks;
            warnings.extend(more);
        }
        Ok(Answered::now(json!({"generation": self.generation, "hooks": ran, "warnings": warnings})))
    }

    fn become_restored(&mut self, request: &ThawRequest) -> Vec<String> {
        if let Some(id) = &request.id {
            self.settings.id.clone_from(id);
        }
        if let Some(environ) = &request.environ {
            self.settings.environ.clone_from(environ);
        }
        if request.hostname.is_some() {
            self.settings.hostname.clone_from(&request.hostname);
        }
        identity::take(
            request.hostname.as_deref(),
            request.machine_id.as_deref(),
            request.entropy.as_deref(),
            self.generation,
        )
    }

    /// Everything that is due at some moment is due that much later.
    pub(super) fn move_deadlines(&mut self, away: Duration) {
        self.execs.move_deadlines(away);
        if let Some(stopping) = &mut self.stopping {
            stopping.move_deadline(away);
        }
    }
}
