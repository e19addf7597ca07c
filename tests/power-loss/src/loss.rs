//! [`Loss`]: what happens to the changes of a file that were not synced.

use std::sync::Arc;

use fastrand::Rng;

/// What happens to the changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// All are there: the process was killed, the machine runs on.
    None,
    /// None is there.
    All,
    /// Of each file the first ones are there.
    Tail,
    /// Each sector of each write is there with this probability.
    Torn {
        /// The size of a sector.
        sector: usize,
        /// The probability.
        keep: f64,
        /// Whether parts of a grown file that were not written hold arbitrary bytes, not zeros.
        garbage: bool,
    },
}

impl Loss {
    /// Draws one.
    pub fn any(rng: &mut Rng) -> Self {
        match rng.u32(0..10) {
            0 => Self::None,
            1..4 => Self::All,
            4 | 5 => Self::Tail,
            _ => Self::Torn {
                sector: [512, 4096][rng.usize(0..2)],
                keep: rng.f64(),
                garbage: rng.bool(),
            },
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write { at: usize, data: Arc<[u8]> },
    Truncate { len: usize },
}

impl Change {
    pub(crate) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { at, data } => put(content, *at, data),
            Self::Truncate { len } => content.resize(*len, 0),
        }
    }
}

fn put(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(data);
}

/// A file, whether a name leads to it or not.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) durable: Vec<u8>,
    pub(crate) pending: Vec<Change>,
    /// The length with all changes.
    pub(crate) len: usize,
}

impl Inode {
    pub(crate) fn after(&self, loss: Loss, rng: &mut Rng) -> Vec<u8> {
        let mut content = self.durable.clone();
        let kept = match loss {
            Loss::None | Loss::Torn { .. } => self.pending.len(),
            Loss::All => 0,
            Loss::Tail => rng.usize(0..=self.pending.len()),
        };
        for change in &self.pending[..kept] {
            match loss {
                Loss::Torn {
                    sector,
                    keep,
                    garbage,
                } => tear(change, &mut content, (sector, keep, garbage), rng),
                _ => change.apply(&mut content),
            }
        }
        content
    }
}

/// Applies the sectors of a change that the disk has got.
fn tear(
    change: &Change,
    content: &mut Vec<u8>,
    (sector, keep, garbage): (usize, f64, bool),
    rng: &mut Rng,
) {
    let Change::Write { at, data } = change else {
        if rng.f64() < keep {
            change.apply(content);
        }
        return;
    };
    let end = at + data.len();
    let mut from = *at;
    while from < end {
        let to = end.min((from / sector + 1) * sector);
        if rng.f64() < keep {
            put(content, from, &data[from - at..to - at]);
        } else if to > content.len() && rng.bool() {
            // The length is there, the bytes are not.
            let grown = content.len().max(from);
            content.resize(to, 0);
            if garbage {
                content[grown..].fill_with(|| rng.u8(..));
            }
        }
        from = to;
    }
}
