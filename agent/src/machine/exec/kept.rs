//! What is kept of an output: its head and its tail, with a count of what lies between.

/// Head and tail of a stream of bytes.
#[derive(Debug, Default)]
pub struct Kept {
    head: Vec<u8>,
    /// A ring once it is full; its oldest byte stands at `oldest`.
    tail: Vec<u8>,
    oldest: usize,
    half_bytes: usize,
    total_bytes: u64,
}

impl Kept {
    /// Room for `limit_bytes`, one half for the head, the other for the tail.
    pub fn new(limit_bytes: usize) -> Self {
        Self { half_bytes: limit_bytes / 2, ..Self::default() }
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half_bytes - self.head.len()));
        self.head.extend_from_slice(first);
        // Only the last ones can stay.
        let mut rest = &rest[rest.len().saturating_sub(self.half_bytes)..];
        let (growing, more) = rest.split_at(rest.len().min(self.half_bytes - self.tail.len()));
        self.tail.extend_from_slice(growing);
        rest = more;
        while !rest.is_empty() {
            let count = rest.len().min(self.half_bytes - self.oldest);
            self.tail[self.oldest..self.oldest + count].copy_from_slice(&rest[..count]);
            self.oldest = (self.oldest + count) % self.half_bytes;
            rest = &rest[count..];
        }
    }

    /// Head, then the tail in its two parts.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, &self.tail[self.oldest..], &self.tail[..self.oldest]]
    }

    /// Bytes of the head.
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Bytes of the tail.
    pub fn tail_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Bytes kept.
    pub fn length(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Bytes that came.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes that came and were not kept.
    pub fn dropped_bytes(&self) -> u64 {
        self.total_bytes - self.length() as u64
    }

    /// Gives the memory back; everything then counts as dropped.
    pub fn clear(&mut self) {
        *self = Self { half_bytes: 0, total_bytes: self.total_bytes, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(kept: &Kept) -> Vec<u8> {
        kept.parts().concat()
    }

    #[test]
    fn head_and_tail_are_the_first_and_last_bytes_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..=250).collect();
        for piece in [1, 3, 7, 10, 64, 251] {
            let mut kept = Kept::new(20);
            bytes.chunks(piece).for_each(|chunk| kept.add(chunk));
            let expected = [&bytes[..10], &bytes[241..]].concat();
            assert_eq!(all(&kept), expected, "pieces of {piece}");
            assert_eq!((kept.total_bytes(), kept.dropped_bytes()), (251, 231));
        }
    }

    #[test]
    fn nothing_is_dropped_up_to_the_limit() {
        let mut kept = Kept::new(8);
        kept.add(b"01234567");
        assert_eq!((all(&kept), kept.dropped_bytes()), (b"01234567".to_vec(), 0));
        kept.add(b"8");
        assert_eq!((all(&kept), kept.dropped_bytes()), (b"01235678".to_vec(), 1));
    }

    #[test]
    fn without_room_everything_is_counted() {
        let mut kept = Kept::new(0);
        kept.add(b"abc");
        kept.clear();
        kept.add(b"de");
        assert_eq!((kept.length(), kept.total_bytes(), kept.dropped_bytes()), (0, 5, 5));
    }
}
