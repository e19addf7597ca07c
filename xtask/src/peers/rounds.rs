//! The order of the sides in a round.

/// The values of one measure: of windlass and of the peer.
pub(super) type Pair = [Vec<f64>; 2];

/// Which side begins: windlass (0) in even rounds.
pub(super) fn order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) {
        [0, 1]
    } else {
        [1, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate() {
        assert_eq!([order(0), order(1), order(2)], [[0, 1], [1, 0], [0, 1]]);
    }
}
