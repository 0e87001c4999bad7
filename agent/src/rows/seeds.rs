//! Seeds that depend on nothing but the pool's seed, the row and the episode.

use sha2::{Digest, Sha256};

/// The seed of row `row` in its episode `episode`: the first four bytes, big-endian, of SHA-256 of
/// `sandpool-seed/1:P:i:e`, shifted right by one, so that it fits everywhere.
pub fn derived_seed(pool_seed: u64, row: u32, episode: u64) -> u64 {
    let digest = Sha256::digest(format!("sandpool-seed/1:{pool_seed}:{row}:{episode}"));
    u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) >> 1)
}
