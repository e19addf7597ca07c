//! [`Fault`]: a duty of a worker that the client does not keep.

use std::{collections::BTreeSet, str::FromStr};

/// A duty of a worker that the client does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// Starts a run again that is sent again.
    StartsTwice,
    /// Starts a run that a late answer has again after a greater one.
    StartsEarlier,
    /// Lets a handler go on whose run was replaced by a greater one.
    KeepsReplaced,
    /// Sends a report with a new number when the answer was lost.
    NewNumber,
    /// Ignores stops.
    IgnoresStop,
    /// Lets a handler go on whose claim is lost.
    IgnoresLost,
    /// Lets handlers go on when the lease was not renewed for 0.8 TTL.
    OutlivesTtl,
    /// Sends a request again with the same `seq`.
    ReusesSeq,
    /// Leaves claims out of `held`.
    ForgetsHeld,
    /// Counts the numbers of reports from 1 in each run of a claim.
    NumbersPerRun,
    /// Ends when a server answers 503.
    GivesUpAt503,
    /// Goes on after 401 and 403.
    GoesOnAfter401,
    /// Goes on after 410.
    GoesOnAfter410,
    /// Sends the next request at once after 429.
    HotLoopAfter429,
    /// Asks for claims while it is drained.
    IgnoresDrain,
    /// Reports something of a claim that is lost.
    ReportsAfterLost,
    /// Counts the TTL from the answer of an exchange, not from when it was sent.
    TtlFromAnswer,
    /// Takes an answer with a value that it cannot decode for none.
    DropsUnreadable,
}

/// Several faults; none by default.
pub type Faults = BTreeSet<Fault>;

const NAMES: [(&str, Fault); 18] = [
    ("starts-twice", Fault::StartsTwice),
    ("starts-earlier", Fault::StartsEarlier),
    ("keeps-replaced", Fault::KeepsReplaced),
    ("new-number", Fault::NewNumber),
    ("ignores-stop", Fault::IgnoresStop),
    ("ignores-lost", Fault::IgnoresLost),
    ("outlives-ttl", Fault::OutlivesTtl),
    ("reuses-seq", Fault::ReusesSeq),
    ("forgets-held", Fault::ForgetsHeld),
    ("numbers-per-run", Fault::NumbersPerRun),
    ("gives-up-at-503", Fault::GivesUpAt503),
    ("goes-on-after-401", Fault::GoesOnAfter401),
    ("goes-on-after-410", Fault::GoesOnAfter410),
    ("hot-loop-after-429", Fault::HotLoopAfter429),
    ("ignores-drain", Fault::IgnoresDrain),
    ("reports-after-lost", Fault::ReportsAfterLost),
    ("ttl-from-answer", Fault::TtlFromAnswer),
    ("drops-unreadable", Fault::DropsUnreadable),
];

impl Fault {
    /// Every fault.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, fault)| *fault)
    }

    /// Returns the name of the fault, for a command line.
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, fault)| *fault == self);
        named.map_or("", |(name, _)| name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, fault)| *fault)
            .ok_or_else(|| format!("fault: '{text}' is not known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Fault::all().map(Fault::name).collect();
        assert_eq!(names.len(), NAMES.len());
        for fault in Fault::all() {
            assert_eq!(fault.name().parse(), Ok(fault));
        }
    }
}
