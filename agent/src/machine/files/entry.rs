//! What is told of a file.

use base64::Engine;
use serde_json::{Value, json};
use std::fs::{self, FileType, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// `{"name","path","kind","size","mode","uid","gid","mtime_ms","target"}`; a path that is no UTF-8 is told with
/// replacement characters, and exactly as `path_base64`.
pub fn describe(path: &Path, metadata: &Metadata) -> Value {
    let text = path.to_string_lossy();
    let target = metadata.is_symlink().then(|| fs::read_link(path).ok()).flatten();
    let mut entry = json!({
        "name": path.file_name().map_or_else(|| text.clone(), |name| name.to_string_lossy()),
        "path": text,
        "kind": kind(metadata.file_type()),
        "size": metadata.size(),
        "mode": metadata.mode() & 0o7777,
        "uid": metadata.uid(),
        "gid": metadata.gid(),
        "mtime_ms": metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000),
        "target": target.map(|target| target.to_string_lossy().into_owned()),
    });
    let bytes = path.as_os_str().as_bytes();
    if str::from_utf8(bytes).is_err() {
        entry["path_base64"] = json!(base64::engine::general_purpose::STANDARD.encode(bytes));
    }
    entry
}

fn kind(of: FileType) -> &'static str {
    let kinds = [
        (of.is_file(), "file"),
        (of.is_dir(), "directory"),
        (of.is_symlink(), "symlink"),
        (of.is_fifo(), "fifo"),
        (of.is_socket(), "socket"),
        (of.is_block_device(), "block_device"),
    ];
    kinds.iter().find(|(is, _)| *is).map_or("character_device", |(_, name)| name)
}
