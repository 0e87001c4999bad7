//! What the agent asks of its container, and what it says when it does not get it.

use serde_json::json;

use super::bundle::Container;
use super::shard::Shard;

#[test]
fn a_missing_capability_is_named() {
    let mut container = Container::default();
    container.capabilities.retain(|name| *name != "CAP_SYS_ADMIN" && *name != "CAP_KILL");
    let reply = Shard::boot(&container).try_ask("new", json!({"isolated": true}));
    let error = reply["error"].as_str().expect("an error");
    assert!(error.contains("CAP_KILL, CAP_SYS_ADMIN"), "{error}");
}

#[test]
fn a_base_uid_that_reaches_the_killers_is_refused() {
    let reply = Shard::boot(&Container::default()).try_ask("new", json!({"isolated": true, "base_uid": 9999}));
    let error = reply["error"].as_str().expect("an error");
    assert!(error.contains("base_uid is 9999; expected above 9999"), "{error}");
}

#[test]
fn a_program_that_does_not_exist_is_an_error_that_names_it() {
    let mut shard = Shard::isolated(json!({}));
    let reply = shard.try_ask("spawn", json!({"row": 0, "argv": ["/env/missing"]}));
    let error = reply["error"].as_str().expect("an error");
    assert!(error.contains("\"/env/missing\"") && error.contains("No such file"), "{error}");
    assert_eq!(shard.processes(0), 0);
}

#[test]
fn the_workers_container_filter_leaves_enough_to_start_and_fork() {
    let container = Container { filter: true, ..Container::default() };
    let mut shard = Shard::start(&container, &json!({"isolated": true}));
    assert_eq!(shard.tell(0, &["whoami"])["home"], "/workspace");
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 1, "then": ["exec", "/sandpool/agent", "sleep"]}));
    assert_eq!(shard.printed(1), "ready");
}
