//! Trees as tar, both ways, hostile ones too.

mod machine;

use machine::{Agent, NOBODY, exists, is_root};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tar::{Archive, Builder, EntryType, Header};

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(1_000_000_000);
    header
}

/// A tar whose names are written as they are: the library refuses hostile ones.
fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let link = matches!(kind, EntryType::Symlink | EntryType::Link);
        let mut header = header(*kind, 0o644, if link { 0 } else { content.len() as u64 });
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if link {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
        }
        header.set_cksum();
        builder.append(&header, if link { "" } else { content }.as_bytes()).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}

fn write(agent: &mut Agent, path: &str, tar: &[u8], members: &Value) -> Value {
    let stream = agent.new_stream();
    let mut head = json!({"op": "tree.write", "path": path, "s": stream});
    head.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    let writing = agent.ask(&head);
    if agent.feed(stream, tar) {
        agent.end(stream);
    }
    agent.answer(writing).head
}

#[test]
fn a_tree_comes_back_as_it_went() {
    let mut agent = Agent::new();
    let (from, to) = (agent.path("from"), agent.path("to"));
    let long = "n".repeat(200);
    std::fs::create_dir_all(format!("{from}/sub/{long}")).expect("folders");
    std::fs::write(format!("{from}/sub/{long}/{long}"), "deep").expect("a file");
    std::fs::write(format!("{from}/run"), "#!/bin/sh\n").expect("a file");
    std::fs::set_permissions(format!("{from}/run"), PermissionsExt::from_mode(0o755)).expect("a mode");
    std::fs::hard_link(format!("{from}/run"), format!("{from}/same")).expect("a link");
    symlink("../nowhere", format!("{from}/sub/link")).expect("a link");
    std::fs::create_dir(format!("{from}/closed")).expect("a folder");
    std::fs::write(format!("{from}/closed/inner"), "x").expect("a file");
    std::fs::set_permissions(format!("{from}/closed"), PermissionsExt::from_mode(0o555)).expect("a mode");
    agent.exec(&["/usr/bin/mkfifo", &format!("{from}/fifo")], &json!({}));
    let stream = agent.new_stream();
    let reply = agent.expect(&json!({"op": "tree.read", "path": from, "s": stream}));
    // The answer comes after the data.
    let (tar, end) = (std::mem::take(&mut agent.streams.get_mut(&stream).expect("data").bytes), agent.drain(stream).1);
    assert_eq!((&reply["entries"], &end["end"]), (&json!(8), &json!(true)));
    assert_eq!(write(&mut agent, &to, &tar, &json!({})), json!({"ok": true, "entries": 8, "bytes": 15}));
    let read = |name: &str| std::fs::read_to_string(format!("{to}/{name}")).expect("a file");
    assert_eq!(
        (read(&format!("sub/{long}/{long}")), read("same"), read("closed/inner")),
        ("deep".into(), "#!/bin/sh\n".into(), "x".into())
    );
    let look = |name: &str| std::fs::symlink_metadata(format!("{to}/{name}")).expect("it");
    assert_eq!((look("run").mode() & 0o7777, look("run").ino()), (0o755, look("same").ino()));
    assert_eq!((look("closed").mode() & 0o7777, look("sub/link").is_symlink()), (0o555, true));
    assert!(!exists(&format!("{to}/fifo")));
    std::fs::set_permissions(format!("{from}/closed"), PermissionsExt::from_mode(0o755)).expect("a mode");
    std::fs::set_permissions(format!("{to}/closed"), PermissionsExt::from_mode(0o755)).expect("a mode");
}

#[test]
fn what_leads_out_of_the_tree_is_refused_and_touches_nothing() {
    use EntryType::{Directory, Link, Regular, Symlink};
    let mut agent = Agent::new();
    let (outside, canary) = (agent.path("outside"), agent.path("outside/canary"));
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(&canary, "canary").expect("a file");
    let absolute = format!("{outside}/new");
    let corpus: Vec<Vec<(EntryType, &str, &str)>> = vec![
        vec![(Regular, "../outside/new", "x")],
        vec![(Regular, &absolute, "x")],
        vec![(Regular, "a/../../outside/new", "x")],
        vec![(Symlink, "l", "../outside"), (Regular, "l/new", "x")],
        vec![(Symlink, "l", &outside), (Regular, "l/new", "x")],
        vec![(Symlink, "l", "/proc/self/root"), (Regular, "l/new", "x")],
        vec![(Symlink, "a", "b"), (Symlink, "b", "../outside"), (Regular, "a/new", "x")],
        vec![(Symlink, "l", "../outside"), (Directory, "l/new", "")],
        vec![(Directory, "d", ""), (Symlink, "d/l", "../.."), (Regular, "d/l/outside/new", "x")],
        vec![(Link, "h", "../outside/canary"), (Regular, "h", "x")],
        vec![(Link, "h", &canary), (Regular, "h", "x")],
        vec![(Symlink, "l", "../outside"), (Link, "h", "l/canary")],
        vec![(EntryType::Fifo, "f", "")],
        vec![(EntryType::Char, "c", "")],
        vec![(EntryType::Block, "b", "")],
        vec![(Regular, ".", "x")],
    ];
    for (number, entries) in corpus.iter().enumerate() {
        let target = agent.path(&format!("target{number}"));
        let reply = write(&mut agent, &target, &archive(entries), &json!({}));
        assert_eq!(reply["ok"], false, "{entries:?} gave {reply}");
        let found: Vec<_> = std::fs::read_dir(&outside).expect("a folder").collect();
        assert_eq!(
            (found.len(), std::fs::read_to_string(&canary).expect("it")),
            (1, "canary".to_owned()),
            "{entries:?}"
        );
    }
}

#[test]
fn a_file_takes_the_place_of_a_link_and_does_not_follow_it() {
    let mut agent = Agent::new();
    let (tree, canary) = (agent.path("tree"), agent.path("canary"));
    std::fs::write(&canary, "canary").expect("a file");
    std::fs::create_dir_all(format!("{tree}/real")).expect("folders");
    symlink(&canary, format!("{tree}/file")).expect("a link");
    symlink("real", format!("{tree}/inside")).expect("a link");
    let tar = archive(&[(EntryType::Regular, "file", "new"), (EntryType::Regular, "inside/file", "within")]);
    let reply = write(&mut agent, &tree, &tar, &json!({}));
    assert_eq!(reply["ok"], true, "{reply}");
    assert_eq!(std::fs::read_to_string(&canary).expect("it"), "canary");
    assert_eq!(std::fs::read_to_string(format!("{tree}/file")).expect("it"), "new");
    assert_eq!(std::fs::read_to_string(format!("{tree}/real/file")).expect("it"), "within");
}

#[test]
fn bits_that_raise_privileges_are_stripped_and_files_belong_to_the_user() {
    let mut agent = Agent::new();
    let mut builder = Builder::new(Vec::new());
    let mut set_uid = header(EntryType::Regular, 0o6755, 1);
    set_uid.set_uid(0);
    builder.append_data(&mut set_uid, "shell", b"x".as_slice()).expect("in memory");
    let tar = builder.into_inner().expect("in memory");
    let tree = agent.path("tree");
    let root = is_root("files of another user");
    let members = if root { json!({"user": format!("{NOBODY}:{NOBODY}")}) } else { json!({}) };
    assert_eq!(write(&mut agent, &tree, &tar, &members)["ok"], true);
    let metadata = std::fs::metadata(format!("{tree}/shell")).expect("it");
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o755, 1_000_000_000));
    assert!(!root || metadata.uid() == NOBODY);
}

#[test]
fn bombs_stop_at_their_limits() {
    let mut agent = Agent::new();
    let entries: Vec<(EntryType, &str, &str)> = (0..20).map(|_| (EntryType::Regular, "same", "12345")).collect();
    let tar = archive(&entries);
    let tree = agent.path("tree");
    assert_eq!(write(&mut agent, &tree, &tar, &json!({"entries": 19}))["error"]["code"], "file_invalid");
    assert_eq!(write(&mut agent, &tree, &tar, &json!({"bytes": 99}))["error"]["code"], "file_invalid");
    assert_eq!(write(&mut agent, &tree, &tar, &json!({"entries": 20, "bytes": 100}))["ok"], true);
    // A size that is only said.
    let mut large = header(EntryType::Regular, 0o644, 1 << 40);
    large.set_path("large").expect("a name");
    large.set_cksum();
    let reply = write(&mut agent, &tree, large.as_bytes(), &json!({"bytes": 1 << 30}));
    assert_eq!(reply["error"]["code"], "file_invalid");
    // A name of many megabytes.
    let mut long = header(EntryType::GNULongName, 0o644, 32 << 20);
    long.set_path("././@LongLink").expect("a name");
    long.set_cksum();
    let tar = [long.as_bytes().as_slice(), &vec![b'n'; 32 << 20]].concat();
    let before = agent.resident_bytes();
    assert_eq!(write(&mut agent, &tree, &tar, &json!({}))["error"]["code"], "file_invalid");
    assert!(agent.resident_bytes() < before + (16 << 20));
    assert_eq!(write(&mut agent, &tree, b"this is no tar", &json!({}))["error"]["code"], "file_invalid");
    assert_eq!(write(&mut agent, &tree, &archive(&entries)[..700], &json!({}))["error"]["code"], "file_invalid");
}

#[test]
fn a_tree_that_is_read_by_another_library_is_whole() {
    let mut agent = Agent::new();
    let tree = agent.path("tree");
    std::fs::create_dir(&tree).expect("a folder");
    for number in 0..50 {
        std::fs::write(format!("{tree}/f{number:02}"), vec![number as u8; number * 1000]).expect("a file");
    }
    let stream = agent.new_stream();
    let reading = agent.ask(&json!({"op": "tree.read", "path": tree, "s": stream}));
    let (tar, _) = agent.drain(stream);
    assert_eq!(agent.answer(reading).head["entries"], 50);
    let mut archive = Archive::new(tar.as_slice());
    for (number, entry) in archive.entries().expect("entries").enumerate() {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        assert_eq!(entry.path().expect("a name").to_string_lossy(), format!("f{number:02}"));
        assert_eq!(bytes, vec![number as u8; number * 1000]);
    }
    assert_eq!(agent.refuse(&json!({"op": "tree.read", "path": "/etc/passwd", "s": 900}))["code"], "not_a_directory");
}
