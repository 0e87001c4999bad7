//! The header of a frame, as `docs/internals/agent-channel.md` draws it.

/// The first four bytes of every frame.
pub const MAGIC: [u8; 4] = *b"SPF1";
/// Bytes before the head.
pub const HEADER_BYTES: usize = 24;
/// Longest head.
pub const HEAD_LIMIT_BYTES: usize = 16 << 20;
/// Longest body.
pub const BODY_LIMIT_BYTES: usize = 1 << 30;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From the worker; answered by one reply of the same sequence.
    Request = 1,
    /// The answer.
    Reply = 2,
    /// News that nobody asked for.
    Event = 3,
    /// Bytes of a stream of a machine, either way.
    Data = 4,
}

/// A header whose checksum is not proven yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of a request, repeated in its reply.
    pub sequence: u32,
    /// 1 request, 2 reply, 3 event, 4 data.
    pub kind: u16,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// CRC-32 of bytes 0..20 and the head.
    pub checksum: u32,
}

/// The header of a frame with this head.
pub fn encode(sequence: u32, kind: Kind, head: &[u8], body_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&sequence.to_le_bytes());
    header[8..10].copy_from_slice(&(kind as u16).to_le_bytes());
    header[12..16].copy_from_slice(&(head.len() as u32).to_le_bytes());
    header[16..20].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    let checksum = checksum(&header, head);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Reads a header; `None` when the magic or a length cannot be one.
pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let header = Header {
        sequence: word(4),
        kind: u16::from_le_bytes([bytes[8], bytes[9]]),
        head_bytes: word(12) as usize,
        body_bytes: word(16) as usize,
        checksum: word(20),
    };
    let fits = header.head_bytes <= HEAD_LIMIT_BYTES && header.body_bytes <= BODY_LIMIT_BYTES;
    (bytes[..4] == MAGIC && fits).then_some(header)
}

/// The checksum that belongs to a header and its head.
pub fn checksum(header: &[u8; HEADER_BYTES], head: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..20]);
    hasher.update(head);
    hasher.finalize()
}
