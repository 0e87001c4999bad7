//! Moments.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longer than any machine lives; what is asked for above it would not fit into a moment.
const LONGEST_MS: u64 = 10 * 365 * 24 * 3_600_000;

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// That many milliseconds from now, at most ten years.
pub fn after_ms(milliseconds: u64) -> Instant {
    Instant::now() + span_ms(milliseconds)
}

/// That many milliseconds, at most ten years.
pub fn span_ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds.min(LONGEST_MS))
}
