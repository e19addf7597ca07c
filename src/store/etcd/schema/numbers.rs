//! Numbers: orders and places in the history, a revision of etcd with a place in it.

/// Bits of a place within a revision. Orders and places in the history are a revision of etcd with
/// such a place, because one combined write makes many of them at one revision.
const PLACE_BITS: u32 = 12;
/// How many places a revision has.
pub(crate) const PLACES: u32 = 1 << PLACE_BITS;

/// The number of what was written at a revision, at this place in it.
pub(crate) fn number(revision: i64, place: u32) -> u64 {
    (u64::try_from(revision).unwrap_or(0) << PLACE_BITS) | u64::from(place)
}

/// The revision in such a number.
pub(crate) fn revision_of(number: u64) -> i64 {
    i64::try_from(number >> PLACE_BITS).unwrap_or(i64::MAX)
}

/// The place in such a number.
pub(crate) fn place_of(number: u64) -> u32 {
    u32::try_from(number % u64::from(PLACES)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_hold_their_revision() {
        assert_eq!(revision_of(number(77, 4095)), 77);
        assert_eq!(place_of(number(77, 4095)), 4095);
        assert!(number(77, 4095) < number(78, 0));
    }
}
