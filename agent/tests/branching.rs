//! Rows become copies of rows. Without isolation.

mod harness;

use harness::branch::{is_reaped, kill, lives, totals, twins};
use harness::{Batch, merged};
use serde_json::json;

#[test]
fn a_row_becomes_many_which_go_on_alike_and_apart() {
    let mut agent = twins(json!({}), 4, json!({}));
    assert_eq!(agent.add(json!([5, 1, 1, 1])), [5, 1, 1, 1]);
    let pids = agent.ask("pid");
    let batch = agent.fork(json!([[0, 3], [0, 1]]));
    assert_eq!(totals(&batch), [5, 5], "the targets in ascending order");
    assert_eq!(batch.head["reseeded"], json!([null, null]));
    assert_eq!(batch.head["failed"], json!([]));
    assert_eq!(batch.items("infos")[0], batch.items("infos")[1], "the source's reset info");
    assert_eq!(agent.add(json!([1, 2, 3, 4])), [6, 7, 4, 9]);
    let now = agent.ask("pid");
    assert_eq!((&now[0], &now[2]), (&pids[0], &pids[2]));
    assert!(now[1] != pids[1] && now[3] != pids[3] && now[1] != now[3], "{pids} {now}");
    agent.await_status(|_| !lives(&pids[1]) && !lives(&pids[3]));
}

#[test]
fn all_sources_are_copied_as_they_were_at_one_instant() {
    let mut agent = twins(json!({}), 3, json!({}));
    agent.add(json!([1, 2, 3]));
    assert_eq!(totals(&agent.fork(json!([[0, 1], [1, 0]]))), [2, 1]);
    assert_eq!(totals(&agent.fork(json!([[2, 0], [0, 1], [1, 2]]))), [3, 2, 1]);
    assert_eq!(totals(&agent.fork(json!([[1, 1]]))), [2], "a row may become a copy of itself");
    assert_eq!(agent.add(json!([10, 20, 30])), [13, 22, 31]);
}

#[test]
fn each_copy_has_files_of_its_own_that_begin_as_the_sources() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.add(json!([7, 0]));
    agent.fork(json!([[0, 1]]));
    agent.add(json!([1, 2]));
    let folders = agent.ask("folder");
    let read = |row: usize| std::fs::read_to_string(format!("{}/total", folders[row].as_str().expect("a path")));
    assert_eq!((read(0).expect("a file"), read(1).expect("a file")), ("8".to_owned(), "9".to_owned()));
    assert_ne!(folders[0], folders[1]);
    agent.fork(json!([[0, 1]]));
    let after = agent.ask("folder");
    assert_eq!(after[0], folders[0]);
    agent.await_status(|_| !std::fs::exists(folders[1].as_str().expect("a path")).expect("a look"));
}

#[test]
fn a_chain_of_generations_keeps_its_memory() {
    let mut agent = twins(json!({}), 2, json!({}));
    for generation in 0..20 {
        let (from, to) = (generation % 2, (generation + 1) % 2);
        let mut numbers = [0, 0];
        numbers[from] = 1;
        agent.add(json!(numbers));
        assert_eq!(totals(&agent.fork(json!([[from, to]]))), [generation as i64 + 1]);
    }
    assert_eq!(agent.look(2), [20, 20]);
    let status = agent.status();
    assert_eq!(status["rows"][0]["state"], "ready");
    assert_eq!(status["rows"][0]["replacements"], 0);
}

#[test]
fn a_copy_counts_its_own_resets_so_that_two_copies_reset_to_different_episodes() {
    let mut agent = twins(json!({}), 3, json!({}));
    let mut control = twins(json!({}), 3, json!({}));
    agent.fork(json!([[0, 1], [0, 2]]));
    let (reset, expected) = (agent.reset(json!({})), control.reset(json!({})));
    assert_eq!(reset.items("infos"), expected.items("infos"), "the same seeds as without a copy");
}

#[test]
fn a_failed_row_heals_as_a_target_and_is_refused_as_a_source() {
    let mut agent = twins(json!({}), 3, json!({}));
    let batch = agent.step(json!([4, [["exit", 3]], 0]), json!({}));
    assert_eq!(batch.head["failed"], json!([1]));
    let sources = agent.refused("fork", json!([[1, 2]]));
    assert_eq!(sources, json!([{"row": 1, "blockers": [{"failed": "crash"}], "text": "failed: crash"}]));
    let batch = agent.fork(json!([[0, 1]]));
    assert_eq!((totals(&batch), &batch.head["failed"]), (vec![4], &json!([])));
    assert_eq!(agent.add(json!([1, 2, 3])), [5, 6, 3]);
}

#[test]
fn a_row_that_was_never_reset_is_no_source() {
    let mut agent = twins(json!({}), 2, json!({"first_reset": false}));
    let sources = agent.refused("fork", json!([[0, 1]]));
    assert_eq!(sources, json!([{"row": 0, "blockers": [{"unreset": true}], "text": "unreset"}]));
    agent.reset(json!({"rows": [0]}));
    agent.fork(json!([[0, 1]]));
    assert_eq!(agent.add(json!([1, 2])), [1, 2]);
}

#[test]
fn a_refusal_names_every_source_and_changes_nothing() {
    let path = std::env::temp_dir().join(format!("sandpool-refuse-{}", std::process::id()));
    let mut agent = twins(json!({"refuse": path}), 3, json!({}));
    agent.add(json!([1, 2, 3]));
    let pids = agent.ask("pid");
    std::fs::write(&path, "").expect("a file");
    let sources = agent.refused("fork", json!([[1, 0], [2, 1], [1, 2]]));
    let blockers = json!([{"threads": 3, "names": ["openblas"]}]);
    assert_eq!(
        sources,
        json!([
            {"row": 1, "blockers": blockers, "text": "threads: 3 (openblas)"},
            {"row": 2, "blockers": blockers, "text": "threads: 3 (openblas)"},
        ])
    );
    std::fs::remove_file(&path).expect("a file");
    assert_eq!((agent.look(3), agent.ask("pid")), (vec![1, 2, 3], pids));
    assert_eq!(totals(&agent.fork(json!([[0, 1]]))), [1], "the rows go on and can be copied");
}

#[test]
fn one_source_that_refuses_undoes_the_copies_of_the_others() {
    let mut agent = twins(json!({}), 3, json!({}));
    agent.add(json!([1, 2, 3]));
    agent.step(json!([0, [["exit", 3]], 0]), json!({}));
    let pids = agent.ask("pid");
    let sources = agent.refused("fork", json!([[0, 2], [1, 0]]));
    assert_eq!(sources.as_array().map(Vec::len), Some(1));
    assert_eq!(agent.ask("pid")[0], pids[0]);
    assert_eq!(totals_of(&agent.step(json!([1, 0, 1]), json!({})), 2), 4);
}

#[test]
fn a_source_that_ends_instead_of_forking_is_a_failed_row_and_a_blocker() {
    let mut agent = twins(json!({"source_script": [["exit", 7]]}), 2, json!({}));
    agent.add(json!([1, 2]));
    let sources = agent.refused("fork", json!([[0, 1]]));
    assert_eq!(sources, json!([{"row": 0, "blockers": [{"failed": "crash"}], "text": "failed: crash"}]));
    let batch = agent.step(json!([1, 1]), json!({}));
    assert_eq!(batch.head["failed"], json!([0]));
    assert_eq!((&batch.error(0)["kind"], &batch.error(0)["exit_code"]), (&json!("crash"), &json!(7)));
    assert_eq!(totals_of(&batch, 1), 3);
    agent.reset(json!({}));
    assert_eq!(agent.add(json!([1, 1])), [1, 1]);
}

#[test]
fn a_source_that_hangs_instead_of_forking_fails_at_the_start_deadline() {
    let mut agent = twins(json!({"source_script": [["sleep", 600]]}), 2, json!({"deadlines_ms": {"start": 1500}}));
    let sources = agent.refused("fork", json!([[0, 1], [0, 0]]));
    assert_eq!(sources[0]["blockers"], json!([{"failed": "timeout"}]));
    let batch = agent.step(json!([1, 1]), json!({}));
    assert_eq!((&batch.head["failed"], &batch.error(0)["kind"]), (&json!([0]), &json!("timeout")));
}

#[test]
fn a_copy_that_ends_before_its_hello_is_told_with_what_it_wrote() {
    let script = json!([["stderr", "no folder\n"], ["exit", 1]]);
    let mut agent = twins(json!({"copy_script": script}), 2, json!({}));
    agent.add(json!([1, 2]));
    let sources = agent.refused("fork", json!([[0, 1]]));
    let reason = sources[0]["blockers"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("exit code 1 before its hello: no folder"), "{reason}");
    assert_eq!(agent.look(2), [1, 2]);
}

#[test]
fn a_held_copy_that_dies_makes_its_target_a_failed_row() {
    let mut agent = twins(json!({}), 3, json!({}));
    agent.add(json!([1, 2, 3]));
    let held = agent.held("fork", json!([[0, 1]]));
    assert_eq!(held.len(), 1, "one more child of the agent");
    kill(&held[0]);
    agent.await_status(|_| is_reaped(&held[0]));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["failed"], &batch.error(0)["kind"]), (&json!([1]), &json!("crash")));
    assert_eq!(batch.error(0)["signal"], 9);
    agent.reset(json!({"rows": [1]}));
    assert_eq!(agent.add(json!([1, 1, 1])), [2, 1, 4]);
}

#[test]
fn between_the_phases_everything_else_is_busy_and_unsettle_changes_nothing() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.add(json!([1, 2]));
    let pids = agent.ask("pid");
    assert_eq!(agent.hold("fork", json!([[0, 1]]), json!({})), json!(["fork"]));
    let step = json!({"op": "step", "seq": 3, "encoding": "json", "rows": null, "actions": {"kind": "json"}});
    let reset = json!({"op": "reset", "seq": 3, "encoding": "json", "rows": null});
    let send = json!({"op": "send", "kind": "reset", "encoding": "json", "rows": [0]});
    let branch = json!({"op": "branch", "kind": "fork", "pairs": []});
    for head in [step, reset, send, branch, json!({"op": "drop", "slots": []})] {
        let reply = agent.request(&head, br#"{"actions":[1,1]}"#).head;
        assert_eq!(reply["error"]["code"], "pool_busy", "{head}: {reply}");
    }
    assert_eq!(agent.request(&json!({"op": "unsettle"}), b"").head, json!({"ok": true}));
    assert_eq!(agent.request(&json!({"op": "unsettle"}), b"").head, json!({"ok": true}));
    let settle = agent.request(&json!({"op": "settle", "seq": 3, "encoding": "json"}), b"").head;
    assert_eq!(settle["error"]["code"], "conflict");
    assert_eq!((agent.look(2), agent.ask("pid")), (vec![1, 2], pids), "the number was still free");
}

#[test]
fn an_unsettle_while_copies_are_made_ends_them_as_they_come() {
    let path = std::env::temp_dir().join(format!("sandpool-await-{}", std::process::id()));
    let script = json!([["await", path], ["exists", "/nowhere"]]);
    let mut agent = twins(json!({"source_script": script}), 2, json!({}));
    agent.add(json!([1, 2]));
    let pids = agent.ask("pid");
    let branch = agent.send(&json!({"op": "branch", "kind": "fork", "pairs": [[0, 1]]}), b"");
    let settle = agent.request_between(&json!({"op": "settle", "seq": 3, "encoding": "json"}));
    assert_eq!(settle["error"]["code"], "pool_busy", "{settle}");
    let unsettle = agent.send(&json!({"op": "unsettle"}), b"");
    std::fs::write(&path, "").expect("a file");
    let refused = agent.reply(branch).head;
    assert_eq!((&refused["ok"], &refused["error"]["code"]), (&json!(false), &json!("conflict")));
    assert_eq!(agent.reply(unsettle).head, json!({"ok": true}));
    std::fs::remove_file(&path).expect("a file");
    assert_eq!((agent.look(2), agent.ask("pid")), (vec![1, 2], pids));
}

#[test]
fn a_copy_that_closes_its_channel_while_it_is_held_does_not_take_its_place() {
    let path = std::env::temp_dir().join(format!("sandpool-closed-{}", std::process::id()));
    let script = json!([["write", "{\"id\":0,\"ok\":true}"], ["close"], ["file", path], ["sleep", 600]]);
    let mut agent = twins(json!({"copy_script": script}), 2, json!({}));
    agent.add(json!([1, 2]));
    agent.hold("fork", json!([[0, 1]]), json!({}));
    agent.await_status(|_| path.exists());
    std::fs::remove_file(&path).expect("a file");
    agent.status();
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["failed"], &batch.error(0)["kind"]), (&json!([1]), &json!("crash")));
}

#[test]
fn a_settle_that_is_repeated_is_answered_with_the_kept_reply() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.add(json!([1, 2]));
    let first = agent.fork(json!([[0, 1]]));
    let pids = agent.status();
    let again = agent.request(&json!({"op": "settle", "seq": 2, "encoding": "json"}), b"");
    assert_eq!((&again.head, &again.body), (&first.head, &first.body));
    assert_eq!(agent.status()["rows"], pids["rows"]);
    agent.hold("fork", json!([[1, 0]]), json!({}));
    let wrong = agent.request(&json!({"op": "settle", "seq": 7, "encoding": "json"}), b"").head;
    assert_eq!(wrong["error"]["details"], json!({"expected": 3, "received": 7}));
    assert_eq!(totals(&Batch::of(agent.settle(json!({})))), [1], "what is held is held still");
}

#[test]
fn what_no_branch_can_be_is_refused_before_anything_is_done() {
    let mut agent = twins(json!({}), 2, json!({"states": 4}));
    let refusals = [
        ("fork", json!([[0, 2]]), json!({}), "the row 2, expected 0 to 1"),
        ("fork", json!([[5, 1]]), json!({}), "the row 5, expected 0 to 1"),
        ("fork", json!([[0, 1], [1, 1]]), json!({}), "the target 1 twice"),
        ("fork", json!([[0, 1]]), json!({"reseed": [1, 2]}), "2 seeds for 1 pairs"),
        ("save", json!([[0, 4]]), json!({}), "the slot 4, expected a number below 4"),
        ("restore", json!([[0, 1]]), json!({}), "the slot 0, which holds no state"),
    ];
    for (kind, pairs, changes, words) in refusals {
        let reply = agent.branch(kind, pairs, changes);
        assert_eq!(reply["error"]["code"], "invalid_request", "{reply}");
        assert!(reply["error"]["message"].as_str().is_some_and(|message| message.contains(words)), "{reply}");
    }
    assert_eq!(agent.branch("fork", json!([]), json!({})), json!({"ok": true, "way": []}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["rows"], &batch.head["reseeded"]), (&json!(0), &json!([])));
}

#[test]
fn without_branching_or_a_template_the_reason_is_told() {
    let mut agent = twins(json!({}), 2, json!({"branching": false}));
    let sources = agent.refused("fork", json!([[0, 1]]));
    assert_eq!(sources, json!([{"row": 0, "blockers": [{"branching": false}], "text": "branching: false"}]));
    let mut agent = twins(json!({"plain": true}), 2, json!({"way": "spawn"}));
    let sources = agent.refused("fork", json!([[0, 1]]));
    assert_eq!(sources, json!([{"row": 0, "blockers": [{"spawned": true}], "text": "spawned"}]));
}

#[test]
fn a_process_that_runs_beside_a_source_is_a_blocker() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.step(
        json!([[["orphan"], ["write", "{\"id\":$ID,\"obs\":0,\"reward\":0,\"terminated\":false}"]], 0]),
        json!({}),
    );
    let sources = agent.refused("fork", json!([[0, 1], [1, 0]]));
    assert_eq!(sources[0]["blockers"][0]["processes"], 1, "{sources}");
    assert_eq!(sources.as_array().map(Vec::len), Some(1));
    agent.reset(json!({"rows": [0], "hard": true}));
    agent.fork(json!([[0, 1]]));
}

#[test]
fn the_log_of_a_copy_follows_its_rows_past() {
    let mut agent = twins(json!({"copy_script": [["stderr", "copied\n"]]}), 2, json!({}));
    let says =
        |text: &str| json!([["stderr", text], ["write", "{\"id\":$ID,\"obs\":0,\"reward\":0,\"terminated\":false}"]]);
    agent.step(json!([says("source\n"), says("past\n")]), json!({}));
    agent.fork(json!([[0, 1]]));
    agent.step(json!([0, says("present\n")]), json!({}));
    agent.await_status(|_| true);
    let log = agent.logs(1);
    assert_eq!(log, "past\n--- replaced ---\ncopied\npresent\n");
}

#[test]
fn a_source_is_asked_for_many_copies_at_once() {
    let mut agent = twins(json!({}), 24, json!({}));
    agent.add(json!((0..24).collect::<Vec<_>>()));
    let pairs: Vec<_> = (0..24).map(|target| json!([23, target])).collect();
    assert_eq!(totals(&agent.fork(json!(pairs))), [23; 24]);
    assert_eq!(agent.add(json!(vec![1; 24])), [24; 24]);
}

#[test]
fn nothing_is_left_after_close_nor_after_the_worker_is_gone() {
    for close in [true, false] {
        let mut agent = twins(json!({}), 2, json!({}));
        agent.save(json!([[0, 3], [1, 5]]));
        agent.hold("fork", json!([[0, 1]]), json!({}));
        let status = agent.status();
        let pids: Vec<_> =
            ["rows", "states"].iter().flat_map(|kind| status[kind].as_array().expect("a list")).collect();
        let pids: Vec<_> = pids.into_iter().map(|known| known["pid"].clone()).collect();
        assert!(pids.len() == 4 && pids.iter().all(lives), "{status}");
        if close {
            assert_eq!(agent.request(&json!({"op": "close"}), b"").head, json!({"ok": true}));
        } else {
            agent.stream.shutdown(std::net::Shutdown::Both).expect("an open channel");
        }
        assert!(agent.process.wait().expect("the agent").success());
        assert!(!pids.iter().any(lives), "{pids:?}");
        let left: Vec<_> = std::fs::read_dir(&agent.folder).expect("a folder").flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn totals_of(batch: &Batch, slot: usize) -> i64 {
    batch.column("obs")[slot].as_f64().expect("a number") as i64
}

#[test]
fn a_batch_of_buffers_has_the_copies_too() {
    let mut agent = twins(json!({"array": true}), 2, json!({}));
    agent.step(json!([3, 4]), json!({}));
    agent.hold("fork", json!([[1, 0]]), json!({}));
    let batch = Batch::of(agent.settle(json!({"encoding": "binary"})));
    let expected: Vec<u8> = [4f64, -4f64].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(batch.bytes("obs", Some(0)), expected);
    let merged_head = merged(json!({"op": "observe"}), &json!({"encoding": "json"}));
    let observed = agent.request(&merged_head, b"");
    assert_eq!(Batch::of(observed).column("obs"), json!([[4.0, -4.0], [4.0, -4.0]]));
}
