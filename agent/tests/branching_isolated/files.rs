//! What a copy has of its source's files.

use serde_json::json;

use super::contained::Contained;

const MAKE: &str = r#"
import socket
os.chdir("/workspace")
os.makedirs("folder/inner")
open("folder/inner/text", "w").write("inside")
os.chmod("folder/inner", 0o711)
os.utime("folder/inner/text", ns=(1_000_000_000, 2_000_000_000))
os.chmod("folder/inner/text", 0o640)
os.link("folder/inner/text", "linked")
os.symlink("/etc/passwd", "outside")
os.symlink("folder/inner/text", "inside")
os.mkfifo("pipe", 0o622)
bound = socket.socket(socket.AF_UNIX); bound.bind("socket"); bound.close()
with open("sparse", "wb") as file:
    file.truncate(1 << 40)
    file.seek(1 << 30); file.write(b"x" * 5000)
open("/tmp/temporary", "w").write("tmp")
open("/dev/shm/shared", "w").write("shm")
kept = open("deleted", "w+b", buffering=0); kept.write(b"0123456789"); kept.seek(4); os.unlink("deleted")
opened = open("opened", "w+b", buffering=0); opened.write(b"abc")
"#;

const LOOK: &str = r#"
def look(path):
    status = os.lstat(path)
    return [stat.filemode(status.st_mode), status.st_size, status.st_nlink, status.st_uid == os.getuid(), status.st_gid == os.getgid()]
names = sorted(os.listdir("/workspace"))
out = {name: look("/workspace/" + name) for name in names}
out["inner"] = look("/workspace/folder/inner")
out["times"] = [os.stat("/workspace/folder/inner/text").st_atime_ns, os.stat("/workspace/folder/inner/text").st_mtime_ns]
out["links"] = [os.readlink("/workspace/outside"), os.readlink("/workspace/inside")]
out["same"] = os.stat("/workspace/linked").st_ino == os.stat("/workspace/folder/inner/text").st_ino
out["blocks"] = os.stat("/workspace/sparse").st_blocks
with open("/workspace/sparse", "rb") as file:
    file.seek((1 << 30) - 2); out["data"] = file.read(5004).count(b"x")
out["others"] = [open("/tmp/temporary").read(), open("/dev/shm/shared").read()]
out["rest"] = kept.read().decode()
kept.seek(4)
"#;

#[test]
fn a_copy_has_every_kind_of_file_as_its_source_has_it() {
    let mut shard = Contained::start(3, json!({"workspace_bytes": 1 << 20}));
    shard.run(json!([0]), MAKE);
    let source = shard.run(json!([0]), LOOK)[0].clone();
    assert_eq!(source["linked"], json!(["-rw-r-----", 6, 2, true, true]));
    assert_eq!((&source["times"], &source["rest"]), (&json!([1_000_000_000, 2_000_000_000]), &json!("456789")));
    assert!(source["blocks"].as_u64().is_some_and(|blocks| blocks < 100), "{source}");
    shard.copy(json!([[0, 1]]));
    shard.save(json!([[1, 9]]));
    shard.restore(json!([[9, 2]]));
    let copies = shard.run(json!(null), LOOK);
    assert_eq!((&copies[1], &copies[2]), (&source, &source));
}

#[test]
fn what_a_copy_writes_its_source_does_not_see() {
    let mut shard = Contained::start(2, json!({}));
    shard.run(json!([0]), MAKE);
    shard.copy(json!([[0, 1]]));
    shard.run(json!([1]), "opened.write(b'def'); open('/workspace/linked', 'a').write('!'); open('/tmp/more', 'w')");
    shard.run(json!([0]), "opened.write(b'g')");
    let look =
        "out = [open('/workspace/opened').read(), open('/workspace/folder/inner/text').read(), os.listdir('/tmp')]";
    let both = shard.run(json!(null), look);
    assert_eq!(both[0], json!(["abcg", "inside", ["temporary"]]));
    assert_eq!((&both[1][0], &both[1][1]), (&json!("abcdef"), &json!("inside!")));
}

#[test]
fn a_workspace_at_its_quota_fits_and_its_copy_has_the_same_quota() {
    let fill = "
def fill(name):
    written = 0
    try:
        with open(name, 'wb', buffering=0) as file:
            while True:
                written += file.write(b'y' * 4096)
    except OSError as error:
        return [written, error.errno]
out = fill('/workspace/full')";
    let mut shard = Contained::start(2, json!({"workspace_bytes": 1 << 20}));
    assert_eq!(shard.run(json!([0]), fill), json!([[1 << 20, 28]]));
    shard.copy(json!([[0, 1]]));
    let again = "os.truncate('/workspace/full', 8192)\nout = fill('/workspace/more')";
    assert_eq!(shard.run(json!(null), again), json!([[(1 << 20) - 8192, 28], [(1 << 20) - 8192, 28]]));
}

#[test]
fn a_workspace_over_the_limit_of_copies_is_a_blocker_with_both_figures() {
    let mut shard = Contained::start(2, json!({"workspace_bytes": 1 << 20, "branch_workspace_bytes": 100_000}));
    shard.run(json!([0]), "open('/dev/shm/large', 'wb').write(b'z' * 200_000)");
    let sources = shard.refused("fork", json!([[0, 1]]));
    let workspace = &sources[0]["blockers"][0]["workspace"];
    assert_eq!((&workspace["bytes"], &workspace["limit_bytes"]), (&json!(200_704), &json!(100_000)));
    shard.run(json!([0]), "os.unlink('/dev/shm/large')");
    shard.copy(json!([[0, 1]]));
}

#[test]
fn folders_without_end_are_a_blocker() {
    let mut shard = Contained::start(2, json!({}));
    let deep = "for number in range(300): os.mkdir('d'); os.chdir('d')\nos.chdir('/workspace')";
    shard.run(json!([0]), deep);
    let sources = shard.refused("fork", json!([[0, 1]]));
    let error = sources[0]["blockers"][0]["workspace"]["error"].as_str().expect("an error");
    assert!(error.contains("more than 256 folders inside each other"), "{error}");
}

#[test]
fn what_a_source_mounts_over_its_workspace_is_not_copied() {
    let mut shard = Contained::start(2, json!({}));
    let cover = "
open('/workspace/own', 'w').write('own')
from sandpool.env.native import native_calls
native = native_calls()
native.set_capabilities(effective=True, permitted=True)
native.bind('/proc', '/workspace')
native.set_capabilities(effective=False, permitted=True)
out = os.path.exists('/workspace/self')";
    assert_eq!(shard.run(json!([0]), cover), json!([true]));
    shard.copy(json!([[0, 1]]));
    let look = "out = [sorted(os.listdir('/workspace'))[:1], os.path.exists('/workspace/self')]";
    assert_eq!(shard.run(json!([1]), look), json!([[["own"], false]]));
}

#[test]
fn copies_that_are_made_together_each_have_files_of_their_own() {
    let mut shard = Contained::start(6, json!({}));
    shard.run(json!([0]), MAKE);
    let source = shard.run(json!([0]), LOOK)[0].clone();
    shard.copy(json!([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]]));
    let descriptors = "out = len(os.listdir('/proc/self/fd'))";
    let counts = shard.run(json!(null), descriptors);
    assert_eq!(counts, json!(vec![counts[0].clone(); 6]), "none kept what was another's");
    shard.run(json!([2]), "opened.write(b'def'); kept.write(b'other'); kept.seek(4)");
    let looked = shard.run(json!(null), LOOK);
    for row in [0, 1, 3, 4, 5] {
        assert_eq!(looked[row], source, "row {row}");
    }
    assert_eq!(looked[2]["rest"], "other9");
}
