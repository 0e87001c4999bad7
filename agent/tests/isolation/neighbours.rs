//! One row's secrets and life, attacked from another row.

use serde_json::{Value, json};

use super::shard::{Shard, parse_output};

const SECRET: &str = "canary-7f3a9c";

/// A victim in row 0 and what row 1 finds of it.
fn peek(shard: &mut Shard, home: &str) -> Value {
    let victim =
        shard.ask("spawn", json!({"row": 0, "argv": ["/sandpool/agent", "victim"], "environ": {"SECRET": SECRET}}));
    let descriptor = shard.printed(0);
    let pid = victim["pid"].to_string();
    let workspace = victim["workspace"].as_str().expect("a path");
    shard.tell(1, &["peek", SECRET, &pid, &descriptor, home, workspace])
}

const PATHS: [&str; 7] = ["workspace", "root", "cwd", "descriptor", "environ", "memory", "listed"];

#[test]
fn a_row_reaches_no_secret_of_another_by_any_path() {
    let mut shard = Shard::isolated(json!({}));
    let found = peek(&mut shard, "/workspace");
    for path in PATHS {
        assert_eq!(found[path], false, "{path}");
    }
    assert_eq!(found["own_file_is_the_neighbours"], false);
}

#[test]
fn without_isolation_every_path_to_a_secret_works() {
    let mut shard = Shard::unisolated();
    let found = peek(&mut shard, "/run/rows/0/workspace");
    for path in PATHS {
        assert_eq!(found[path], true, "{path}");
    }
}

#[test]
fn a_forked_row_reaches_no_secret_of_another_either() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    let victim =
        shard.ask("spawn", json!({"row": 0, "argv": ["/sandpool/agent", "victim"], "environ": {"SECRET": SECRET}}));
    let descriptor = shard.printed(0);
    let pid = victim["pid"].to_string();
    let peek = ["exec", "/sandpool/agent", "peek", SECRET, &pid, &descriptor, "/workspace", "/run/ws/0"];
    shard.ask("fork", json!({"row": 1, "then": peek}));
    let found = parse_output(&shard.wait(1));
    for path in PATHS {
        assert_eq!(found[path], false, "{path}");
    }
}

#[test]
fn a_row_that_kills_everything_kills_nobody_else() {
    let mut shard = Shard::isolated(json!({}));
    shard.spawn(0, &["sleep"]);
    shard.printed(0);
    shard.ask("template", json!({}));
    assert_eq!(shard.run(1, &["kill_all"])["output"], "done\n");
    shard.ask("fork", json!({"row": 2, "then": ["exec", "/sandpool/agent", "kill_all"]}));
    assert_eq!(shard.wait(2)["output"], "done\n");
    assert_eq!(shard.processes(0), 1);
    // The template answers still.
    shard.ask("fork", json!({"row": 3, "then": ["exec", "/sandpool/agent", "sleep"]}));
    assert_eq!(shard.printed(3), "ready");
}

#[test]
fn without_isolation_a_row_that_kills_everything_kills_its_neighbours() {
    let mut shard = Shard::unisolated();
    shard.spawn(0, &["sleep"]);
    shard.printed(0);
    shard.run(1, &["kill_all"]);
    assert_eq!(shard.wait(0)["signal"], 9);
}
