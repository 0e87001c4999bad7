//! Who a copy is.

use serde_json::json;

use super::bundle::Container;
use super::contained::Contained;

const WHO: &str = r#"
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
out = [os.getuid(), status["Uid"].split(), status["CapEff"], os.getsid(0) == os.getpid(), os.getpid(),
       [mounts.count(place) for place in ("/workspace", "/tmp", "/dev/shm")], sum("/run/ws" in place for place in mounts)]
"#;

#[test]
fn a_row_takes_the_one_of_its_two_uids_that_its_present_process_does_not_have() {
    let mut shard = Contained::start(2, json!({"states": 16}));
    let [first, second] = [10_001, 10_000 + 2 + 16 + 1];
    let as_started = shard.run(json!([0]), WHO)[0][5].clone();
    for uid in [first, second, first, second] {
        let told = shard.run(json!([1]), WHO);
        let ids = vec![uid.to_string(); 4];
        let [own, all, capabilities, leads] = [0, 1, 2, 3].map(|place| told[0][place].clone());
        assert_eq!((own, all), (json!(uid), json!(ids)));
        assert_eq!((capabilities, leads), (json!("0000000000000000"), json!(true)));
        assert_eq!(told[0][5], as_started, "one mount on each, as a row that was not copied has it");
        assert_eq!(told[0][6], 0, "and no sight of other workspaces");
        shard.await_members("e1", &[uid]);
        shard.copy(json!([[0, 1]]));
    }
}

#[test]
fn memory_groups_are_entered_by_the_copies_and_lent_to_nobody_afterwards() {
    let mut shard = Contained::start(3, json!({"states": 16}));
    shard.save(json!([[0, 4], [1, 5], [2, 15]]));
    assert_eq!(shard.members("states"), [10_003 + 4, 10_003 + 5, 10_003 + 15]);
    shard.copy(json!([[0, 1], [1, 2], [2, 0]]));
    for (group, uid) in [("e0", 10_019), ("e1", 10_020), ("e2", 10_021)] {
        shard.await_members(group, &[uid]);
        assert_eq!(shard.entrants(group), 1000);
    }
    assert_eq!(shard.entrants("states"), 1000);
    shard.restore(json!([[4, 0], [4, 1], [15, 2]]));
    for (group, uid) in [("e0", 10_000), ("e1", 10_001), ("e2", 10_002)] {
        shard.await_members(group, &[uid]);
    }
    shard.drop_states(json!([4, 5]));
    shard.await_members("states", &[10_003 + 15]);
    shard.run(json!([0]), "threading.Thread(target=threading.Event().wait, daemon=True).start()");
    let sources = shard.refused("fork", json!([[0, 1]]));
    assert_eq!(sources[0]["blockers"][0]["threads"], 1, "{sources}");
    assert_eq!(shard.entrants("e1"), 1000);
}

#[test]
fn without_memory_groups_the_address_space_is_limited_and_companions_are_found_by_uid() {
    let mut shard = Contained::start_in(&Container::default(), 2, json!({"memory_bytes": 1 << 30}));
    let limit = "import resource\nout = list(resource.getrlimit(resource.RLIMIT_AS))";
    shard.copy(json!([[0, 1]]));
    assert_eq!(shard.run(json!([1]), limit), json!([[1 << 30, 1 << 30]]));
    shard.run(json!([0]), "start_sleepers(1)");
    let sources = shard.refused("fork", json!([[0, 1]]));
    assert_eq!(sources[0]["blockers"], json!([{"processes": 1, "names": ["sleep"]}]));
}

#[test]
fn a_process_that_runs_beside_a_source_is_found_by_its_memory_group() {
    let mut shard = Contained::start(2, json!({}));
    shard.run(json!([0]), "start_sleepers(1)");
    let sources = shard.refused("save", json!([[0, 0], [1, 1]]));
    assert_eq!(
        sources,
        json!([{"row": 0, "blockers": [{"processes": 1, "names": ["sleep"]}], "text": "processes: 1 (sleep)"}])
    );
    shard.await_members("states", &[]);
    shard.copy(json!([[1, 0]]));
    shard.await_members("e0", &[10_000 + 2 + 1024]);
}
