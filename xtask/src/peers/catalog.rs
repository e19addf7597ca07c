//! The peers, their settings, and the setting of windlass that each is compared with.

use super::measure::Measure;

/// A folder of `benches/peers/`.
pub(super) type Program = &'static str;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    /// Submits and drained tasks.
    Queue,
    /// Transitions of running tasks, and how soon a handler starts and gets a command, on one etcd.
    Machine,
}

impl Jobs {
    /// The program of windlass itself for these jobs.
    pub(super) fn windlass(self) -> Program {
        match self {
            Self::Queue => "windlass",
            Self::Machine => "windlass-etcd",
        }
    }
}

/// One peer with one setting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contender {
    /// The name on the command line.
    pub(super) peer: &'static str,
    /// The name in the table.
    pub(super) name: &'static str,
    pub(super) jobs: Jobs,
    pub(super) program: Program,
    pub(super) setting: &'static str,
    /// The level of `synchronous` of windlass for the comparison: the same, or the next safer one.
    pub(super) beside: &'static str,
    /// Who serves the peer's store, if it is not a file.
    pub(super) serves: Option<Serves>,
    /// The measurements in addition to the rates.
    pub(super) more: &'static [Measure],
}

/// The server that is started for each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    /// Redis, with its log; the setting is `appendfsync`.
    Redis,
    /// The job `serve` of the peer's program.
    Itself,
}

const ALL: &[Measure] = &[Measure::Kills, Measure::Lateness, Measure::Sleepers];

pub(super) const CONTENDERS: &[Contender] = &[
    Contender {
        peer: "apalis",
        name: "apalis-sqlite 1.0, synchronous FULL",
        jobs: Jobs::Queue,
        program: "apalis",
        setting: "full",
        beside: "full",
        serves: None,
        more: ALL,
    },
    Contender {
        peer: "apalis",
        name: "apalis-sqlite 1.0, as its setup() leaves it",
        jobs: Jobs::Queue,
        program: "apalis",
        setting: "default",
        beside: "full",
        serves: None,
        more: &[],
    },
    Contender {
        peer: "durare",
        name: "durare 0.5, synchronous FULL",
        jobs: Jobs::Queue,
        program: "durare",
        setting: "full",
        beside: "full",
        serves: None,
        more: ALL,
    },
    Contender {
        peer: "durare",
        name: "durare 0.5, synchronous NORMAL (its default)",
        jobs: Jobs::Queue,
        program: "durare",
        setting: "normal",
        beside: "normal",
        serves: None,
        more: &[],
    },
    Contender {
        peer: "duroxide",
        name: "duroxide 0.1, synchronous FULL",
        jobs: Jobs::Queue,
        program: "duroxide",
        setting: "full",
        beside: "full",
        serves: None,
        more: ALL,
    },
    Contender {
        peer: "duroxide",
        name: "duroxide 0.1, synchronous NORMAL (its default)",
        jobs: Jobs::Queue,
        program: "duroxide",
        setting: "default",
        beside: "normal",
        serves: None,
        more: &[],
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on SQLite, synchronous NORMAL",
        jobs: Jobs::Queue,
        program: "rustqueue",
        setting: "sqlite",
        beside: "normal",
        serves: None,
        more: &[Measure::Sleepers],
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on redb (its default)",
        jobs: Jobs::Queue,
        program: "rustqueue",
        setting: "redb",
        beside: "full",
        serves: None,
        more: &[Measure::Sleepers],
    },
    Contender {
        peer: "rustqueue",
        name: "rustqueue 0.3 on redb, writes coalesced",
        jobs: Jobs::Queue,
        program: "rustqueue",
        setting: "coalesced",
        beside: "full",
        serves: None,
        more: &[],
    },
    Contender {
        peer: "curlyq",
        name: "CurlyQ on Redis, appendfsync always",
        jobs: Jobs::Queue,
        program: "curlyq",
        setting: "always",
        beside: "full",
        serves: Some(Serves::Redis),
        more: ALL,
    },
    Contender {
        peer: "curlyq",
        name: "CurlyQ on Redis, appendfsync everysec",
        jobs: Jobs::Queue,
        program: "curlyq",
        setting: "everysec",
        beside: "normal",
        serves: Some(Serves::Redis),
        more: &[],
    },
    Contender {
        peer: "entroq",
        name: "EntroQ behind gRPC, in memory, journal without syncs",
        jobs: Jobs::Queue,
        program: "entroq",
        setting: "journal",
        beside: "normal",
        serves: Some(Serves::Itself),
        more: &[],
    },
    Contender {
        peer: "entroq",
        name: "EntroQ behind gRPC, on PostgreSQL",
        jobs: Jobs::Queue,
        program: "entroq",
        setting: "postgresql",
        beside: "full",
        serves: Some(Serves::Itself),
        more: &[],
    },
    Contender {
        peer: "metafora",
        name: "Metafora on etcd",
        jobs: Jobs::Machine,
        program: "metafora",
        setting: "",
        beside: "",
        serves: None,
        more: &[Measure::Sleepers],
    },
];

/// A module in Go that a module proxy may refuse.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) program: Program,
    pub(super) path: &'static str,
    /// The variable that names a folder with its source.
    pub(super) variable: &'static str,
}

pub(super) const MODULES: &[Module] = &[
    Module {
        program: "metafora",
        path: "github.com/lytics/metafora",
        variable: "WINDLASS_PEER_METAFORA",
    },
    Module {
        program: "curlyq",
        path: "github.com/mcmathja/curlyq",
        variable: "WINDLASS_PEER_CURLYQ",
    },
    Module {
        program: "entroq",
        path: "github.com/shiblon/entroq",
        variable: "WINDLASS_PEER_ENTROQ",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_a_folder() {
        for contender in CONTENDERS {
            for program in [contender.program, contender.jobs.windlass()] {
                let folder = crate::root().join("benches/peers").join(program);
                assert!(folder.is_dir(), "{}", folder.display());
            }
        }
    }

    #[test]
    fn each_module_is_required_by_its_program_and_named_in_the_help() -> Result<(), std::io::Error>
    {
        for module in MODULES {
            let folder = crate::root().join("benches/peers").join(module.program);
            let mods = std::fs::read_to_string(folder.join("go.mod"))?;
            assert!(mods.contains(&format!("{} v", module.path)), "{mods}");
            assert!(crate::peers::HELP.contains(module.variable));
        }
        Ok(())
    }

    #[test]
    fn each_peer_is_named_in_the_help() {
        for contender in CONTENDERS {
            assert!(crate::peers::HELP.contains(&format!("  {} ", contender.peer)));
        }
    }

    #[test]
    fn names_differ() {
        for (at, contender) in CONTENDERS.iter().enumerate() {
            assert!(CONTENDERS[..at].iter().all(|c| c.name != contender.name));
        }
    }
}
