//! Generations, deaths, and what is left.

use serde_json::json;

use super::contained::Contained;

#[test]
fn thirty_generations_keep_memory_and_files_while_their_ancestors_die() {
    let mut shard = Contained::start(3, json!({"states": 40}));
    shard.run(json!([0]), "log = open('/workspace/log', 'w+', buffering=1); count = 0");
    for generation in 0..30u32 {
        let (from, to) = (generation % 3, (generation + 1) % 3);
        shard.run(json!([from]), "count += 1; log.write(f'{count}\\n')");
        shard.save(json!([[from, generation]]));
        shard.copy(json!([[from, to]]));
    }
    let look = "log.seek(0); out = [count, len(log.read().split())]; log.seek(0, 2)";
    assert_eq!(shard.run(json!([0, 2]), look), json!([[30, 30], [30, 30]]));
    shard.restore(json!([[4, 0], [20, 1]]));
    assert_eq!(shard.run(json!([0, 1]), look), json!([[5, 5], [21, 21]]));
    assert_eq!(shard.members("states").len(), 30);
    shard.drop_states(json!((0..30).collect::<Vec<_>>()));
    shard.await_members("states", &[]);
    for group in ["e0", "e1", "e2"] {
        let uids = shard.members(group);
        shard.await_members(group, &uids[uids.len() - 1..]);
    }
}

#[test]
fn whatever_a_target_runs_ends_with_it() {
    let mut shard = Contained::start(2, json!({}));
    shard.run(json!([1]), "start_sleepers(3)");
    assert_eq!(shard.members("e1"), [10_001; 4]);
    shard.copy(json!([[0, 1]]));
    shard.await_members("e1", &[10_000 + 2 + 1024 + 1]);
}

#[test]
fn states_and_copies_outlive_source_and_template() {
    let mut shard = Contained::start(2, json!({}));
    shard.run(json!([0]), "count = 7");
    shard.save(json!([[0, 0]]));
    let template = "
def parent(pid):
    return int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
out = [os.getppid(), parent(os.getpid())]";
    assert_eq!(shard.run(json!([1]), template), json!([[1, 1]]), "a copy is the agent's child");
    shard.copy(json!([[0, 1]]));
    let failed = shard.call("run", json!({"args": ["os._exit(3)"], "kwargs": {}}), json!({"rows": [0]}));
    assert_eq!(failed.head["failed"], json!([0]));
    shard.restore(json!([[0, 0]]));
    assert_eq!(shard.run(json!(null), "out = count"), json!([7, 7]));
    shard.await_members("e0", &[10_000 + 2 + 1024]);
}

#[test]
fn a_hard_reset_and_a_crash_of_a_copy_give_a_new_process_in_its_place() {
    let mut shard = Contained::start(2, json!({}));
    shard.run(json!([0]), "open('/workspace/left', 'w')");
    shard.copy(json!([[0, 1]]));
    shard.reset(json!({"rows": [1], "hard": true}));
    assert_eq!(shard.run(json!([1]), "out = os.listdir('/workspace')"), json!([[]]));
    shard.await_members("e1", &[10_000 + 2 + 1024 + 1]);
    shard.copy(json!([[0, 1]]));
    let failed = shard.call("run", json!({"args": ["os.kill(os.getpid(), 9)"], "kwargs": {}}), json!({"rows": [1]}));
    assert_eq!((&failed.head["failed"], &failed.error(0)["kind"]), (&json!([1]), &json!("crash")));
    shard.reset(json!({"rows": [1]}));
    assert_eq!(shard.run(json!(null), "out = os.listdir('/workspace')"), json!([["left"], []]));
}
