//! Which of the agent's bytes a connection gets: whole frames that began while it was there, and nothing else.
#![cfg(target_os = "linux")]

use sandpool_agent::channel::frame::{self, Kind};
use sandpool_agent::shim::frames::{Next, Outgoing, next};

fn frame_of(sequence: u32, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = frame::encode(sequence, Kind::Reply, head, body.len()).to_vec();
    bytes.extend(head);
    bytes.extend(body);
    bytes
}

fn take(outgoing: &mut Outgoing, bytes: &[u8], connected: bool) -> Vec<u8> {
    let mut to = Vec::new();
    outgoing.take(bytes, connected, &mut to);
    to
}

#[test]
fn frames_pass_byte_for_byte_however_they_are_cut() {
    let all =
        [frame_of(1, b"{}", b""), frame_of(2, b"{\"ok\":true}", &[7; 1000]), frame_of(3, b"{}", b"SPF1SPF1")].concat();
    for size in [1, 3, 24, 25, 100, all.len()] {
        let mut outgoing = Outgoing::default();
        let passed: Vec<u8> = all.chunks(size).flat_map(|chunk| take(&mut outgoing, chunk, true)).collect();
        assert_eq!(passed, all, "chunks of {size}");
        assert!(outgoing.between_frames());
    }
}

#[test]
fn a_frame_that_began_under_another_connection_is_dropped_to_its_end() {
    let (first, second) = (frame_of(1, b"{}", &[1; 500]), frame_of(2, b"{}", b"whole"));
    let mut outgoing = Outgoing::default();
    assert_eq!(take(&mut outgoing, &first[..100], true), first[..100]);
    assert!(!outgoing.between_frames());
    outgoing.connection_changed();
    assert!(outgoing.between_frames());
    assert_eq!(take(&mut outgoing, &[&first[100..], &second[..]].concat(), true), second);
}

#[test]
fn what_is_said_while_nobody_is_connected_is_dropped_in_whole_frames() {
    let (first, second) = (frame_of(1, b"{}", &[1; 500]), frame_of(2, b"{}", b"whole"));
    let mut outgoing = Outgoing::default();
    assert!(take(&mut outgoing, &first[..100], false).is_empty());
    assert_eq!(take(&mut outgoing, &[&first[100..], &second[..]].concat(), true), second);
}

#[test]
fn after_damage_the_next_frame_is_found() {
    let whole = frame_of(9, b"{}", b"body");
    let mut damaged = frame_of(8, b"{\"a\":1}", b"");
    damaged[26] ^= 1;
    for noise in [b"SPF1 and then nothing of the kind, for longer than a header".to_vec(), vec![0; 70_000], damaged] {
        let mut outgoing = Outgoing::default();
        assert_eq!(take(&mut outgoing, &[noise, whole.clone()].concat(), true), whole);
    }
}

#[test]
fn a_length_beyond_the_limits_is_no_frame() {
    let mut header = frame::encode(1, Kind::Reply, b"", 0);
    header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(next(&header), Next::Skip(_)));
}

#[test]
fn an_agent_cannot_speak_for_the_shim() {
    let event = |head: &[u8]| {
        let mut bytes = frame::encode(0, Kind::Event, head, 0).to_vec();
        bytes.extend(head);
        bytes
    };
    let own = event(b"{\"event\":\"memory\"}");
    for forged in [&b"{\"event\":\"exit\"}"[..], b"{ \"event\" : \"\\u0073him\" }", b"[]"] {
        let mut outgoing = Outgoing::default();
        assert_eq!(take(&mut outgoing, &[event(forged), own.clone()].concat(), true), own);
    }
}
