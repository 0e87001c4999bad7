//! What a vectorised environment says of itself in its hello.

use crate::channel::request::Autoreset;
use serde::Deserialize;

/// A process whose rows are one vectorised environment.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Vector {
    /// Its class, for messages.
    pub class: String,
    /// Its own mode at the end of an episode.
    #[serde(default)]
    pub autoreset: Option<Autoreset>,
    /// True when some of its rows can be reset alone.
    #[serde(default)]
    pub partial_reset: bool,
    /// True when each row takes a seed of its own.
    #[serde(default)]
    pub row_seeds: bool,
}
