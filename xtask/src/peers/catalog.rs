//! The peers, their settings, and the setting of windlass that each is compared with.

/// A folder of `benches/peers/`.
pub(super) type Program = &'static str;

/// The program of windlass itself.
pub(super) const WINDLASS: Program = "windlass";

/// One peer with one setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contender {
    /// The name on the command line.
    pub(super) peer: &'static str,
    /// The name in the table.
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) setting: &'static str,
    /// The level of `synchronous` of windlass beside it: the same, or the next safer one.
    pub(super) beside: &'static str,
}

pub(super) const CONTENDERS: &[Contender] = &[
    Contender {
        peer: "apalis",
        name: "apalis-sqlite 1.0, synchronous FULL",
        program: "apalis",
        setting: "full",
        beside: "full",
    },
    Contender {
        peer: "apalis",
        name: "apalis-sqlite 1.0, as its setup() leaves it",
        program: "apalis",
        setting: "default",
        beside: "full",
    },
    Contender {
        peer: "durare",
        name: "durare 0.5, synchronous FULL",
        program: "durare",
        setting: "full",
        beside: "full",
    },
    Contender {
        peer: "durare",
        name: "durare 0.5, synchronous NORMAL (its default)",
        program: "durare",
        setting: "normal",
        beside: "normal",
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on SQLite, synchronous NORMAL",
        program: "rustqueue",
        setting: "sqlite",
        beside: "normal",
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on redb (its default)",
        program: "rustqueue",
        setting: "redb",
        beside: "full",
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on redb, writes coalesced",
        program: "rustqueue",
        setting: "coalesced",
        beside: "full",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_a_folder() {
        for contender in CONTENDERS {
            let folder = crate::root().join("benches/peers").join(contender.program);
            assert!(folder.is_dir(), "{}", folder.display());
        }
    }

    #[test]
    fn names_differ() {
        for (at, contender) in CONTENDERS.iter().enumerate() {
            assert!(CONTENDERS[..at].iter().all(|c| c.name != contender.name));
        }
    }
}
