//! Memory limits of a row and the figures of the sampler.

use serde_json::{Value, json};

use super::bundle::Container;
use super::shard::Shard;

const MIB: u64 = 1 << 20;

fn with_groups() -> Shard {
    let container = Container { memory: Some((3, 64 * MIB)), ..Container::default() };
    Shard::start(&container, &json!({"isolated": true, "memory_dir": "/run/memory"}))
}

fn kills(shard: &mut Shard, row: u32) -> Value {
    shard.ask("oom_kills", json!({"row": row}))["oom_kills"].clone()
}

#[test]
fn the_kernel_kills_the_row_that_passes_its_memory_and_counts_it() {
    let mut shard = with_groups();
    shard.spawn(1, &["hog", &(32 * MIB).to_string()]);
    shard.printed(1);
    assert_eq!(shard.run(0, &["hog", &(128 * MIB).to_string()])["signal"], 9);
    assert_eq!((kills(&mut shard, 0), kills(&mut shard, 1)), (json!(1), json!(0)));
    assert_eq!(shard.processes(1), 1);
}

#[test]
fn a_fork_enters_its_memory_cgroup_before_it_is_anyone() {
    let mut shard = with_groups();
    shard.ask("template", json!({}));
    let hog = (128 * MIB).to_string();
    shard.ask("fork", json!({"row": 2, "then": ["exec", "/sandpool/agent", "hog", hog]}));
    assert_eq!(shard.wait(2)["signal"], 9);
    assert_eq!((kills(&mut shard, 0), kills(&mut shard, 2)), (json!(0), json!(1)));
}

#[test]
fn a_live_fork_enters_a_memory_cgroup_of_its_own() {
    let mut shard = with_groups();
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": ["serve"]}));
    let hog = (128 * MIB).to_string();
    shard.ask("fork", json!({"row": 1, "from": 0, "then": ["exec", "/sandpool/agent", "hog", hog]}));
    assert_eq!(shard.wait(1)["signal"], 9);
    assert_eq!((kills(&mut shard, 0), kills(&mut shard, 1)), (json!(0), json!(1)));
    assert_eq!(shard.processes(0), 1);
}

#[test]
fn without_a_memory_cgroup_the_address_space_is_limited() {
    let mut shard = Shard::isolated(json!({"memory_bytes": 64 * MIB}));
    assert_eq!(shard.run(0, &["hog", &(128 * MIB).to_string()])["output"], "refused\n");
    assert_eq!(kills(&mut shard, 0), 0);
}

#[test]
fn the_sampler_adds_up_what_each_row_holds() {
    for mut shard in [Shard::isolated(json!({})), Shard::unisolated()] {
        shard.spawn(0, &["hog", &(32 * MIB).to_string()]);
        // Two processes of one row.
        let pair = format!("/sandpool/agent hog {0} & /sandpool/agent hog {0} & wait", 16 * MIB);
        shard.ask("spawn", json!({"row": 1, "argv": ["/bin/sh", "-c", pair]}));
        shard.printed(0);
        shard.until("output", json!({"row": 1}), |reply| (reply["output"] == "ready\nready\n").then_some(()));
        let sample = shard.ask("sample", json!({}));
        for row in ["0", "1"] {
            let bytes = sample["rows"][row].as_u64().expect("a figure");
            assert!((32 * MIB..40 * MIB).contains(&bytes), "row {row}: {bytes}");
        }
        assert!(sample["agent"].as_u64().is_some_and(|bytes| bytes > 0), "{sample}");
        assert_eq!(sample["template"], Value::Null);
    }
}
