//! [`Options`]: the command line.

use std::path::PathBuf;

use super::{
    catalog::{CONTENDERS, Contender},
    measure::Measure,
};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) quick: bool,
    pub(super) json: bool,
    pub(super) rounds: usize,
    pub(super) tasks: usize,
    /// Seconds after which a job ends with what it has done.
    pub(super) limit: u64,
    /// How many workers of each side are killed.
    pub(super) kills: usize,
    /// How many jobs sleep.
    pub(super) sleepers: usize,
    pub(super) dir: Option<PathBuf>,
    only: Option<Measure>,
    peers: Vec<String>,
}

impl Options {
    pub(super) fn parse(args: &[String]) -> Result<Self, String> {
        let quick = args.iter().any(|arg| arg == "--quick");
        let mut options = Self {
            quick,
            json: false,
            rounds: if quick { 2 } else { 5 },
            tasks: if quick { 2_000 } else { 100_000 },
            limit: if quick { 5 } else { 60 },
            kills: if quick { 5 } else { 100 },
            sleepers: if quick { 20_000 } else { 1_000_000 },
            dir: None,
            only: None,
            peers: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                let value = args.next();
                value.ok_or_else(|| format!("could not read {arg}: its value is missing"))
            };
            match arg.as_str() {
                "--quick" => {}
                "--json" => options.json = true,
                "--rounds" => options.rounds = number(arg, value()?)?,
                "--tasks" => options.tasks = number(arg, value()?)?,
                "--limit" => options.limit = number(arg, value()?)? as u64,
                "--kills" => options.kills = number(arg, value()?)?,
                "--sleepers" => options.sleepers = number(arg, value()?)?,
                "--only" => options.only = Some(measure(value()?)?),
                "--dir" => options.dir = Some(value()?.into()),
                peer if CONTENDERS.iter().any(|c| c.peer == peer) => {
                    options.peers.push(arg.clone());
                }
                other => {
                    let mut known: Vec<&str> = CONTENDERS.iter().map(|c| c.peer).collect();
                    known.dedup();
                    return Err(format!(
                        "could not run bench peers with '{other}': the peers are {}; the options are in \
                         `cargo xtask bench peers --help`",
                        known.join(", ")
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Returns the measurements for a contender.
    pub(super) fn measures(&self, contender: &Contender) -> impl Iterator<Item = Measure> {
        let has =
            |measure: &Measure| *measure == Measure::Rates || contender.more.contains(measure);
        let is_chosen = |measure: &Measure| self.only.is_none_or(|only| only == *measure);
        Measure::ALL.into_iter().filter(has).filter(is_chosen)
    }

    /// The contenders of the chosen peers; all by default.
    pub(super) fn contenders(&self) -> impl Iterator<Item = &'static Contender> {
        let is_chosen =
            |c: &&Contender| self.peers.is_empty() || self.peers.iter().any(|peer| peer == c.peer);
        let has_measures = |c: &&Contender| self.measures(c).next().is_some();
        CONTENDERS.iter().filter(is_chosen).filter(has_measures)
    }
}

fn measure(name: &str) -> Result<Measure, String> {
    let found = Measure::ALL.into_iter().find(|m| m.name() == name);
    found.ok_or_else(|| {
        format!(
            "could not read --only {name}: the measures are rates, kills, lateness and sleepers"
        )
    })
}

/// A number of at least 1.
fn number(option: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "could not read {option} {value}: write a number of at least 1"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let args: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn options_override_those_of_quick() -> Result<(), String> {
        let options = parse("--rounds 3 durare --quick --limit 7")?;
        assert_eq!(
            (options.rounds, options.tasks, options.limit),
            (3, 2_000, 7)
        );
        assert!(options.contenders().all(|c| c.peer == "durare"));
        Ok(())
    }

    #[test]
    fn all_peers_are_the_default() -> Result<(), String> {
        assert_eq!(parse("")?.contenders().count(), CONTENDERS.len());
        Ok(())
    }

    #[test]
    fn only_chooses_the_peers_that_have_the_measure() -> Result<(), String> {
        let options = parse("--only kills --kills 7")?;
        assert_eq!(options.kills, 7);
        let peers: Vec<&str> = options.contenders().map(|c| c.peer).collect();
        assert_eq!(peers, ["apalis", "durare", "duroxide", "curlyq"]);
        for contender in options.contenders() {
            let measures: Vec<Measure> = options.measures(contender).collect();
            assert_eq!(measures, [Measure::Kills]);
        }
        assert!(parse("--only drains").unwrap_err().contains("rates, kills"));
        Ok(())
    }

    #[test]
    fn an_unknown_peer_is_an_error_with_the_known_ones() {
        let error = parse("apali").unwrap_err();
        assert!(
            error.contains("'apali'") && error.contains("apalis, durare"),
            "{error}"
        );
        let error = parse("--rounds 0").unwrap_err();
        assert!(error.contains("--rounds 0"), "{error}");
        assert!(parse("--rounds").unwrap_err().contains("missing"));
    }
}
