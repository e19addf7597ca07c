//! Numbers: orders, and sequence numbers of changes. Each is a revision of etcd with a place in it.

/// The bits of a place within a revision. One combined write makes many numbers at one revision, so
/// each has its own place.
const PLACE_BITS: u32 = 12;
/// How many places a revision has.
pub(crate) const PLACES: u32 = 1 << PLACE_BITS;

/// Returns the number of a revision and a place in it.
pub(crate) fn number(revision: i64, place: u32) -> u64 {
    (u64::try_from(revision).unwrap_or(0) << PLACE_BITS) | u64::from(place)
}

/// Returns the revision of a number.
pub(crate) fn revision_of(number: u64) -> i64 {
    i64::try_from(number >> PLACE_BITS).unwrap_or(i64::MAX)
}

/// Returns the place of a number.
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
