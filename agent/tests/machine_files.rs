//! Files and trees of a machine. Numbers are those of the faults that users of other platforms met.

mod machine;

use machine::{Agent, NOBODY, exists, is_root, pattern};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(agent: &mut Agent, path: &str, bytes: &[u8], members: &Value) -> Value {
    let stream = agent.new_stream();
    let mut head = json!({"op": "file.write", "path": path, "s": stream});
    head.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    let writing = agent.ask(&head);
    agent.feed(stream, bytes);
    agent.end(stream);
    agent.answer(writing).head
}

fn read(agent: &mut Agent, path: &str, members: &Value) -> (Vec<u8>, Value) {
    let stream = agent.new_stream();
    let mut head = json!({"op": "file.read", "path": path, "s": stream});
    head.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    agent.expect(&head);
    agent.drain(stream)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn fault_23_24_success_means_that_all_bytes_are_there() {
    let mut agent = Agent::new();
    let path = agent.path("a/b/file");
    let bytes = pattern(3_000_001);
    let reply = write(&mut agent, &path, &bytes, &json!({"size": bytes.len()}));
    assert_eq!(reply, json!({"ok": true, "bytes": bytes.len(), "sha256": hash(&bytes)}));
    assert!(std::fs::read(&path).expect("the file") == bytes);
    assert_eq!(std::fs::metadata(&path).expect("the file").mode() & 0o7777, 0o644);
    let (came, end) = read(&mut agent, &path, &json!({}));
    assert!(came == bytes && end["end"] == true);
    let (came, _) = read(&mut agent, &path, &json!({"offset": 2_999_990, "length": 100}));
    assert!(came == bytes[2_999_990..]);
    assert_eq!(names(&agent.folder.join("a/b")), ["file"]);
}

#[test]
fn fault_23_an_upload_that_breaks_leaves_what_was_there() {
    let mut agent = Agent::new();
    let path = agent.path("file");
    std::fs::write(&path, "old").expect("a file");
    let reply = write(&mut agent, &path, b"shorter", &json!({"size": 8}));
    assert_eq!(reply["error"]["code"], "file_invalid");
    let stream = agent.new_stream();
    let writing = agent.ask(&json!({"op": "file.write", "path": path, "s": stream}));
    agent.feed(stream, b"half");
    let failed = json!({"s": stream, "error": {"code": "aborted", "message": "the client went away"}});
    agent.send(sandpool_agent::channel::frame::Kind::Data, 0, &failed, b"");
    assert_eq!(agent.answer(writing).head["error"]["code"], "file_invalid");
    let stream = agent.new_stream();
    agent.ask(&json!({"op": "file.write", "path": path, "s": stream}));
    agent.feed(stream, b"half");
    agent.begin(&json!({}));
    agent.until(|agent| (names(&agent.folder) == ["file"]).then_some(()));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "old");
}

#[test]
fn fault_25_a_gibibyte_goes_up_and_down_in_flat_memory() {
    let mut agent = Agent::new();
    let path = agent.path("large");
    let (stream, block) = (agent.new_stream(), vec![7; 1 << 20]);
    let writing = agent.ask(&json!({"op": "file.write", "path": path, "s": stream, "size": 1 << 30}));
    let mut most = 0;
    for round in 0..1024 {
        assert!(agent.feed(stream, &block));
        most = if round % 64 == 0 { most.max(agent.resident_bytes()) } else { most };
    }
    agent.end(stream);
    assert_eq!(agent.answer(writing).head["bytes"], 1 << 30);
    let stream = agent.new_stream();
    agent.expect(&json!({"op": "file.read", "path": path, "s": stream}));
    let (mut count, mut same) = (0, true);
    while agent.streams.get(&stream).is_none_or(|incoming| incoming.end.is_none()) {
        agent.take();
        if let Some(incoming) = agent.streams.get_mut(&stream) {
            same &= incoming.bytes.iter().all(|&byte| byte == 7);
            count += incoming.bytes.len();
            incoming.bytes.clear();
        }
        most = if count % (64 << 20) == 0 { most.max(agent.resident_bytes()) } else { most };
    }
    assert_eq!((count, same), (1 << 30, true));
    assert!(most < 32 << 20, "the agent took {most} bytes");
}

#[test]
fn a_rewritten_file_keeps_mode_and_owner_and_a_link_stays_a_link() {
    let mut agent = Agent::new();
    let (path, link) = (agent.path("file"), agent.path("link"));
    std::fs::write(&path, "old").expect("a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o751)).expect("a mode");
    if is_root("keeping the owner") {
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).expect("an owner");
    }
    symlink("file", &link).expect("a link");
    let owner = std::fs::metadata(&path).expect("a file").uid();
    assert_eq!(write(&mut agent, &link, b"new", &json!({}))["ok"], true);
    let metadata = std::fs::metadata(&path).expect("the file");
    assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o751, owner));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "new");
    assert!(std::fs::symlink_metadata(&link).expect("the link").is_symlink());
    assert_eq!(write(&mut agent, &path, b"", &json!({"mode": 0o600}))["bytes"], 0);
    assert_eq!(std::fs::metadata(&path).expect("the file").mode() & 0o7777, 0o600);
}

#[test]
fn errors_are_told_in_words_of_the_contract() {
    let mut agent = Agent::new();
    let (file, folder) = (agent.path("file"), agent.path("folder"));
    std::fs::write(&file, "x").expect("a file");
    std::fs::create_dir_all(format!("{folder}/inner")).expect("folders");
    let mut code = |head: Value| agent.refuse(&head)["code"].as_str().expect("a code").to_owned();
    assert_eq!(code(json!({"op": "file.stat", "path": format!("{file}x")})), "file_not_found");
    assert_eq!(code(json!({"op": "file.stat", "path": format!("{file}/x")})), "not_a_directory");
    assert_eq!(code(json!({"op": "file.read", "path": folder, "s": 900})), "is_a_directory");
    assert_eq!(code(json!({"op": "file.read", "path": format!("{file}x"), "s": 900})), "file_not_found");
    assert_eq!(code(json!({"op": "file.list", "path": file})), "not_a_directory");
    assert_eq!(code(json!({"op": "file.make", "path": folder})), "file_exists");
    assert_eq!(code(json!({"op": "file.make", "path": format!("{folder}/a/b")})), "file_not_found");
    assert_eq!(code(json!({"op": "file.move", "from": file, "to": folder})), "file_exists");
    assert_eq!(code(json!({"op": "file.remove", "path": folder})), "file_invalid");
    assert_eq!(code(json!({"op": "file.remove", "path": "//"})), "file_invalid");
    for path in ["", "relative", "/nul\0", &format!("/{}", "x".repeat(5000))] {
        assert_eq!(code(json!({"op": "file.stat", "path": path})), "file_invalid", "{path:.20}");
        assert_eq!(code(json!({"op": "file.write", "path": path, "s": 901})), "file_invalid");
    }
    for path in [folder.clone(), format!("{file}/"), format!("{folder}/..")] {
        let reply = write(&mut agent, &path, b"x", &json!({}));
        assert_eq!(reply["error"]["code"], "is_a_directory", "{path}");
    }
}

#[test]
fn special_files_block_nobody() {
    let mut agent = Agent::new();
    let fifo = agent.path("fifo");
    assert_eq!(agent.exec(&["/usr/bin/mkfifo", &fifo], &json!({})).head["exit_code"], 0);
    for path in [fifo.as_str(), "/dev/zero", "/dev/tty"] {
        assert_eq!(agent.refuse(&json!({"op": "file.read", "path": path, "s": 900}))["code"], "file_invalid");
        assert_eq!(write(&mut agent, path, b"x", &json!({}))["error"]["code"], "file_invalid");
    }
    let (status, end) = read(&mut agent, "/proc/self/status", &json!({}));
    assert!(status.starts_with(b"Name:") && end["end"] == true);
}

#[test]
fn folders_are_listed_in_order_and_in_pages() {
    let mut agent = Agent::new();
    let root = agent.path("list");
    std::fs::create_dir_all(format!("{root}/sub")).expect("folders");
    for number in 0..10_005 {
        std::fs::write(format!("{root}/f{number:05}"), "").expect("a file");
    }
    std::fs::write(format!("{root}/sub/deep"), "12345").expect("a file");
    symlink("sub/deep", format!("{root}/link")).expect("a link");
    let reply = agent.expect(&json!({"op": "file.list", "path": root, "depth": 2}));
    let entries = reply["entries"].as_array().expect("entries");
    assert_eq!((entries.len(), &reply["more"]), (10_000, &json!(true)));
    assert_eq!(entries[9_999]["name"], "f09999");
    let after = &entries[9_999]["path"];
    let reply = agent.expect(&json!({"op": "file.list", "path": root, "depth": 2, "after": after}));
    let entries = reply["entries"].as_array().expect("entries");
    let told: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().expect("a name")).collect();
    assert_eq!(told, ["f10000", "f10001", "f10002", "f10003", "f10004", "link", "sub", "deep"]);
    assert_eq!((&entries[5]["kind"], &entries[5]["target"]), (&json!("symlink"), &json!("sub/deep")));
    assert_eq!((&entries[7]["kind"], &entries[7]["size"]), (&json!("file"), &json!(5)));
    let followed = agent.expect(&json!({"op": "file.stat", "path": format!("{root}/link"), "follow": true}));
    assert_eq!((&followed["entry"]["kind"], &followed["entry"]["size"]), (&json!("file"), &json!(5)));
}

#[test]
fn files_are_made_moved_and_removed() {
    let mut agent = Agent::new();
    let (one, two) = (agent.path("one/deep"), agent.path("two"));
    agent.expect(&json!({"op": "file.make", "path": one, "parents": true}));
    agent.expect(&json!({"op": "file.make", "path": one, "parents": true}));
    agent.expect(&json!({"op": "file.move", "from": agent.path("one"), "to": two}));
    assert!(exists(&format!("{two}/deep")) && !exists(&one));
    let (first, second) = (agent.path("first"), agent.path("second"));
    std::fs::write(&first, "1").expect("a file");
    std::fs::write(&second, "2").expect("a file");
    assert_eq!(agent.refuse(&json!({"op": "file.move", "from": first, "to": second}))["code"], "file_exists");
    agent.expect(&json!({"op": "file.move", "from": first, "to": second, "replace": true}));
    assert_eq!(std::fs::read_to_string(&second).expect("moved"), "1");
    symlink(&second, format!("{two}/link")).expect("a link");
    agent.expect(&json!({"op": "file.remove", "path": two, "recursive": true}));
    assert!(!exists(&two) && exists(&second));
}

#[test]
fn paths_are_those_of_the_given_user() {
    if !is_root("files of several users") {
        return;
    }
    let mut agent = Agent::new();
    let user = json!(format!("{NOBODY}:{NOBODY}"));
    let secret = agent.path("secret");
    std::fs::write(&secret, "canary").expect("a file");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("a mode");
    let reading = json!({"op": "file.read", "path": secret, "s": 900, "user": user});
    assert_eq!(agent.refuse(&reading)["code"], "permission_denied");
    let own = agent.path("own/file");
    assert_eq!(write(&mut agent, &own, b"x", &json!({"user": user}))["ok"], true);
    let metadata = std::fs::metadata(&own).expect("the file");
    assert_eq!((metadata.uid(), metadata.gid()), (NOBODY, NOBODY));
    let reply = write(&mut agent, "/etc/sandpool-canary", b"x", &json!({"user": user}));
    assert_eq!(reply["error"]["code"], "permission_denied");
    assert!(!exists("/etc/sandpool-canary"));
    // The next piece of work is root's again.
    assert_eq!(read(&mut agent, &secret, &json!({})).0, b"canary");
    let odd = agent.refuse(&json!({"op": "file.stat", "path": "/", "user": "+0"}));
    assert_eq!(odd["code"], "invalid_request");
}

#[test]
fn changes_are_told() {
    let mut agent = Agent::new();
    let root = agent.path("watched");
    std::fs::create_dir_all(format!("{root}/sub")).expect("folders");
    let stream = agent.new_stream();
    agent.expect(&json!({"op": "file.watch", "path": root, "recursive": true, "s": stream}));
    std::fs::write(format!("{root}/sub/a"), "x").expect("a file");
    std::fs::rename(format!("{root}/sub/a"), format!("{root}/b")).expect("a move");
    std::fs::create_dir_all(format!("{root}/new/deep")).expect("folders");
    std::fs::remove_file(format!("{root}/b")).expect("removed");
    let has = |lines: &[Value], wanted: &Value| lines.contains(wanted);
    let lines = agent.until(|agent| {
        let bytes = agent.streams.get(&stream).map(|incoming| incoming.bytes.clone()).unwrap_or_default();
        let lines: Vec<Value> =
            bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let last = json!({"kind": "removed", "path": format!("{root}/b")});
        let deep = json!({"kind": "created", "path": format!("{root}/new/deep")});
        if has(&lines, &last) && has(&lines, &deep) {
            return Some(lines);
        }
        agent.take();
        None
    });
    assert!(has(&lines, &json!({"kind": "created", "path": format!("{root}/sub/a")})), "{lines:?}");
    let moved = json!({"kind": "moved", "path": format!("{root}/sub/a"), "to": format!("{root}/b")});
    assert!(has(&lines, &moved), "{lines:?}");
    std::fs::remove_dir_all(&root).expect("removed");
    let (_, end) = agent.drain(stream);
    assert_eq!(end["end"], true);
}

#[test]
fn a_flood_of_changes_becomes_a_rescan() {
    let mut agent = Agent::new();
    agent.generous = false;
    let root = agent.path("flood");
    std::fs::create_dir(&root).expect("a folder");
    let stream = agent.new_stream();
    agent.expect(&json!({"op": "file.watch", "path": root, "s": stream}));
    for number in 0..30_000 {
        std::fs::write(format!("{root}/{number}"), "").expect("a file");
    }
    agent.generous = true;
    let had = agent.streams.get(&stream).map_or(0, |incoming| incoming.bytes.len());
    agent.pay(stream, had.max(1));
    agent.until(|agent| {
        let bytes = agent.streams.get(&stream).map(|incoming| incoming.bytes.clone()).unwrap_or_default();
        if bytes.windows(8).any(|window| window == b"\"rescan\"") {
            return Some(());
        }
        agent.take();
        None
    });
}
