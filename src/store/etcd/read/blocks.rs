//! Cuts the ids of a namespace into blocks of a bounded size, upwards or downwards. Pure except for the
//! counts.
//!
//! etcd's only order is that of its keys. It reads upwards only, and counts every key of a range that a request names. So
//! a block is found with ranges that grow digit by digit from the current position: after the common first digits, most
//! ids differ in the last ones. Default ids begin with their time, so the first ranges below the id of this moment have
//! the newest tasks.

use std::future::Future;

use crate::store::etcd::client::Fault;

/// A range of ids, with the end excluded. Its bounds need not be ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

/// The keys of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) keys: usize,
    /// The first of them.
    pub(crate) first: Vec<u8>,
}

/// Counts the keys of ranges.
pub(crate) trait Count: Sync {
    /// Returns the content of each range, all at one time.
    fn count(&self, ranges: &[Ids]) -> impl Future<Output = Result<Vec<Found>, Fault>> + Send;
}

/// The most cuts of a range at one byte.
const CUTS: usize = 48;
/// The digit from which related default ids differ: ids with the same digits before it belong to the same quarter
/// of a second.
const OF_A_MOMENT: usize = 11;
/// How many of the narrowest ranges are counted at once.
const NARROWEST: usize = 3;

impl Ids {
    fn is_empty(&self) -> bool {
        self.from >= self.end
    }

    /// Cuts it at the first id: that id, then ids that share fewer and fewer of its bytes, upwards.
    fn around(&self, first: &[u8]) -> Vec<Self> {
        let mut from = first.to_vec();
        let ends = (0..=first.len()).rev().map(|shared| match shared {
            0 => self.end.clone(),
            _ => after(&first[..shared]).min(self.end.clone()),
        });
        let itself = std::iter::once([first, &[0]].concat());
        let mut cut = Vec::new();
        for end in itself.chain(ends) {
            let ids = Self { from, end };
            from = ids.end.clone();
            cut.push(ids);
        }
        cut.retain(|ids| !ids.is_empty());
        cut
    }

    /// Cuts it at the values of the first byte in which its ids differ, upwards.
    fn by_byte(&self, first: &[u8]) -> Vec<Self> {
        let shared = self.shared(first);
        let prefix = &first[..shared.min(first.len())];
        let low = first.get(shared).copied().unwrap_or(0);
        // Bytes after the printable ones are rare, so one range has all of them.
        let high = match self.end.strip_prefix(prefix) {
            Some([byte, ..]) => *byte,
            _ => 0x7f,
        };
        let high = high.max(low.saturating_add(1));
        let step = usize::from(high - low).div_ceil(CUTS).max(1);
        let mut from = first.to_vec();
        let mut cut = Vec::new();
        for byte in (low..=high).skip(step).step_by(step) {
            let end = [prefix, &[byte]].concat().min(self.end.clone());
            let ids = Self { from, end };
            from = ids.end.clone();
            cut.push(ids);
        }
        let end = self.end.clone();
        cut.push(Self { from, end });
        cut.retain(|ids| !ids.is_empty());
        cut
    }

    /// Returns how many bytes all ids from `first` on share.
    fn shared(&self, first: &[u8]) -> usize {
        let same = first.iter().zip(&self.end);
        let same = same.take_while(|(a, b)| a == b).count();
        // An end that follows a prefix shares all of it except the last byte.
        let next = (first.get(same), self.end.get(same));
        let is_next = matches!(next, (Some(a), Some(b)) if a.checked_add(1) == Some(*b));
        same + usize::from(is_next && self.end.len() == same + 1)
    }
}

/// Returns the first text after all texts that begin with `prefix`. Text has no byte 255.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Returns the numbers of bytes at which ranges next to a position are cut, starting with the
/// narrowest.
fn digits(place: &[u8]) -> impl Iterator<Item = usize> {
    let is_default = place.len() > OF_A_MOMENT
        && place[..8].iter().all(u8::is_ascii_hexdigit)
        && place[8] == b'-';
    let narrowest = match is_default {
        true => OF_A_MOMENT,
        false => place.len().saturating_sub(1),
    };
    let cuts = (0..=narrowest).rev();
    // A cut next to a character that only this id has finds nothing.
    cuts.filter(|cut| {
        let next = place.get(*cut);
        *cut == 0 || next.is_none_or(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
    })
}

/// Returns the ranges below the end, downwards, the narrowest first. `now` is a default id of this
/// moment, if the end is not a position in a list.
fn below(ids: &Ids, now: Option<&[u8]>) -> Vec<Ids> {
    let place = match now.filter(|now| ids.from.as_slice() < *now && *now < ids.end.as_slice()) {
        Some(now) => now,
        None => &ids.end,
    };
    let mut end = ids.end.clone();
    let cuts = std::iter::once(place.len()).chain(digits(place));
    let mut ranges = Vec::new();
    for cut in cuts {
        let from = place[..cut].to_vec().max(ids.from.clone());
        let range = Ids { from, end };
        end = range.from.clone();
        ranges.push(range);
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// Returns the ranges above the start, upwards, the narrowest first; the whole range if the start
/// is not a position in a list.
fn above(ids: &Ids) -> Vec<Ids> {
    let place = ids.from.strip_suffix(&[0]).unwrap_or(&ids.from);
    let mut from = ids.from.clone();
    let mut ranges = Vec::new();
    for cut in digits(place) {
        let end = match cut {
            0 => ids.end.clone(),
            _ => after(&place[..cut]).min(ids.end.clone()),
        };
        let range = Ids { from, end };
        from = range.end.clone();
        ranges.push(range);
    }
    ranges.retain(|range| !range.is_empty());
    ranges
}

/// A block that grows by adjacent ranges.
struct Block {
    ids: Option<Ids>,
    keys: usize,
    most: usize,
}

/// How a range relates to a block.
enum Taken {
    Yes,
    TooMuch,
}

impl Block {
    fn new(most: usize) -> Self {
        let (ids, keys) = (None, 0);
        Self { ids, keys, most }
    }

    fn take(&mut self, range: &Ids, found: &Found) -> Taken {
        if found.keys == 0 {
            return Taken::Yes;
        }
        if self.keys + found.keys > self.most {
            return Taken::TooMuch;
        }
        self.keys += found.keys;
        self.ids = Some(match self.ids.take() {
            None => range.clone(),
            Some(ids) => Ids {
                from: ids.from.min(range.from.clone()),
                end: ids.end.max(range.end.clone()),
            },
        });
        Taken::Yes
    }

    fn is_enough(&self) -> bool {
        self.keys * 4 >= self.most
    }
}

/// Returns the block at the upper end of the ids, with at least one key and about `most` of them; `None` when there is no
/// key.
pub(crate) async fn last(
    count: &impl Count,
    ids: &Ids,
    now: Option<&[u8]>,
    most: usize,
) -> Result<Option<Ids>, Fault> {
    let (ids, too_much) = grow(count, below(ids, now), most).await?;
    match (ids, too_much) {
        (None, Some((range, found))) => last_of(count, range, found, most).await.map(Some),
        (ids, _) => Ok(ids),
    }
}

/// Returns the block at the upper end of a range with more than `most` keys.
async fn last_of(
    count: &impl Count,
    mut range: Ids,
    mut found: Found,
    most: usize,
) -> Result<Ids, Fault> {
    let mut is_by_byte = false;
    while found.keys > most {
        range.from.clone_from(&found.first);
        let cut = match is_by_byte {
            true => range.by_byte(&found.first),
            false => range.around(&found.first),
        };
        is_by_byte = !is_by_byte;
        let counted = count.count(&cut).await?;
        let mut block = Block::new(most);
        let mut parts = cut.into_iter().zip(counted).rev();
        let too_much = parts.find(|(ids, found)| {
            let taken = block.take(ids, found);
            matches!(taken, Taken::TooMuch)
        });
        match (block.ids, too_much) {
            (Some(ids), _) => return Ok(ids),
            (None, Some(part)) => (range, found) = part,
            // Its keys were deleted in the meantime.
            (None, None) => break,
        }
    }
    Ok(range)
}

/// Returns the block at the lower end of the ids, with at least one key and about `most` of them; `None` when there is no
/// key.
pub(crate) async fn first(
    count: &impl Count,
    ids: &Ids,
    most: usize,
) -> Result<Option<Ids>, Fault> {
    let (ids, too_much) = grow(count, above(ids), most).await?;
    match (ids, too_much) {
        (None, Some((range, found))) => first_of(count, range, &found, most).await.map(Some),
        (ids, _) => Ok(ids),
    }
}

/// Returns the block at the lower end of a range with more than `most` keys.
async fn first_of(
    count: &impl Count,
    mut range: Ids,
    found: &Found,
    most: usize,
) -> Result<Ids, Fault> {
    range.from.clone_from(&found.first);
    let cut = range.around(&found.first);
    let counted = count.count(&cut).await?;
    let mut block = Block::new(most.max(1));
    for (ids, found) in cut.iter().zip(counted) {
        if let Taken::TooMuch = block.take(ids, &found) {
            break;
        }
    }
    Ok(block.ids.unwrap_or(range))
}

/// Makes a block of adjacent ranges. Returns it with the range that had too many keys for it.
async fn grow(
    count: &impl Count,
    ranges: Vec<Ids>,
    most: usize,
) -> Result<(Option<Ids>, Option<(Ids, Found)>), Fault> {
    let mut block = Block::new(most);
    let mut at_once = NARROWEST;
    let mut rest = ranges.as_slice();
    while !rest.is_empty() && !block.is_enough() {
        let (some, later) = rest.split_at(at_once.min(rest.len()));
        (at_once, rest) = (1, later);
        let counted = count.count(some).await?;
        for (range, found) in some.iter().zip(counted) {
            if let Taken::TooMuch = block.take(range, &found) {
                return Ok((block.ids, Some((range.clone(), found))));
            }
        }
    }
    Ok((block.ids, None))
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
