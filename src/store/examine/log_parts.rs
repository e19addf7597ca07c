//! The finding about parts of logs that cannot be read.

use super::{Finding, Strays, Verdict};
use crate::store::{Advice, Remedy};

/// Returns the finding. A repair has deleted so many of the damaged parts.
pub(crate) fn finding(damaged: &Strays, repaired: u64) -> Finding {
    let what = (Verdict::Error, "parts of logs that cannot be read");
    let advice = "their lines are lost, and a copy leaves their tasks out: a repair deletes these parts and keeps the others";
    let advice = Advice::new(advice, Remedy::Repair);
    Finding::none_of("log-parts", what, damaged, repaired, advice)
}
