//! Paths that a request may name.

use super::errors::invalid;
use crate::channel::error::RequestError;
use crate::machine::run::Machine;

/// Longest path the kernel takes, without the NUL at its end.
const LIMIT_BYTES: usize = 4095;

/// Absolute, without NUL, not longer than the kernel takes.
pub fn check(path: &str) -> Result<(), RequestError> {
    if !path.starts_with('/') || path.contains('\0') || path.len() > LIMIT_BYTES {
        let shown: String = path.chars().take(200).collect();
        return Err(invalid(&shown, "is no path; expected an absolute one of at most 4095 bytes without NUL"));
    }
    Ok(())
}

impl Machine {
    /// Checks every path of a request.
    pub(super) fn check_paths(&self, paths: &[&str]) -> Result<(), RequestError> {
        paths.iter().try_for_each(|path| check(path))
    }
}
