//! Seeds that depend on nothing but the pool's seed, the row and the episode.

use sha2::{Digest, Sha256};

/// The seed of row `row` in its episode `episode`: the first four bytes, big-endian, of SHA-256 of
/// `sandpool-seed/1:P:i:e`, shifted right by one, so that it fits everywhere.
pub fn derived_seed(pool_seed: u64, row: u32, episode: u64) -> u64 {
    first_bytes(&format!("sandpool-seed/1:{pool_seed}:{row}:{episode}"))
}

/// The seed of row `row` as a copy that is reseeded for the `count`th time, likewise of `sandpool-reseed/1:P:i:k`.
pub fn derived_reseed(pool_seed: u64, row: u32, count: u64) -> u64 {
    first_bytes(&format!("sandpool-reseed/1:{pool_seed}:{row}:{count}"))
}

fn first_bytes(text: &str) -> u64 {
    let digest = Sha256::digest(text);
    u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) >> 1)
}
