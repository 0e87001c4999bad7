//! What a readiness event is about, packed into the 64 bits that epoll gives back.

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// The worker.
    Worker,
    /// Ended children.
    Children,
    /// The memory sampler.
    Sampler,
    /// The stream that a pack's process answers on.
    Pack,
    /// Standard output of a process that has not chosen its stream.
    PackPipes,
    /// A pack's standard error.
    PackLog,
    /// The channel of a copy that has not taken its place, or of a saved state.
    Copy,
    /// Its standard error.
    CopyLog,
    /// The template's socket.
    Template,
    /// The template's standard output, until it has answered.
    TemplatePipes,
    /// The template's standard error.
    TemplateLog,
}

const SOURCES: [Source; 11] = [
    Source::Worker,
    Source::Children,
    Source::Sampler,
    Source::Pack,
    Source::PackPipes,
    Source::PackLog,
    Source::Copy,
    Source::CopyLog,
    Source::Template,
    Source::TemplatePipes,
    Source::TemplateLog,
];

/// A source, the pack, and the pack's epoch: an event of a process that was replaced meanwhile is told by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Where from.
    pub source: Source,
    /// Number of the pack, or of the copy.
    pub pack: usize,
    /// The pack's epoch, its low 24 bits.
    pub epoch: u32,
}

impl Token {
    /// A token without a pack.
    pub fn of(source: Source) -> Self {
        Self::of_pack(source, 0, 0)
    }

    /// A token of a pack.
    pub fn of_pack(source: Source, pack: usize, epoch: u32) -> Self {
        Self { source, pack, epoch: epoch & 0xff_ffff }
    }

    /// Packs it.
    pub fn pack(self) -> u64 {
        (self.source as u64) << 56 | u64::from(self.epoch) << 32 | self.pack as u64
    }

    /// Unpacks it.
    pub fn unpack(bits: u64) -> Self {
        Self {
            source: SOURCES[(bits >> 56) as usize % SOURCES.len()],
            pack: (bits & 0xffff_ffff) as usize,
            epoch: (bits >> 32) as u32 & 0xff_ffff,
        }
    }
}
