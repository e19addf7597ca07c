//! Runs seeds of the simulation until one fails.

use std::{
    fmt,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::SWITCH;

/// The seeds that are run, at most, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) over: Duration,
    /// How long one seed may take. A seed that takes longer does not end, which is a failure.
    pub(super) silence: Duration,
}

/// What the seeds have shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ran {
    /// This many seeds were clean.
    Clean(u64),
    /// The last of this many seeds has failed.
    Failed { seeds: u64, why: String },
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean(seeds) => write!(f, "not found in {seeds} seeds"),
            Self::Failed { seeds, why } => write!(f, "found after {seeds} seeds: {why}"),
        }
    }
}

/// The lines of the program, one after the other.
#[derive(Debug, Default)]
struct Said {
    /// How many seeds have ended.
    seeds: u64,
    /// What the failed seed says first.
    why: Option<String>,
}

impl Said {
    /// Takes a line; returns whether the failure is complete.
    fn take(&mut self, line: &str) -> bool {
        if let Some(why) = &mut self.why {
            *why = format!("{why} {}", line.trim());
            return true;
        }
        let Some(rest) = line.strip_prefix("seed ") else {
            return false;
        };
        match rest.split_once(" FAILED: ") {
            None => self.seeds += 1,
            Some((_, why)) => {
                self.why = Some(why.to_owned());
                // A list of violations begins with their number.
                return !why.ends_with(':');
            }
        }
        false
    }

    fn failed(&self, why: &str) -> Ran {
        Ran::Failed {
            seeds: self.seeds.max(1),
            why: why.to_owned(),
        }
    }
}

/// Runs the program with a planted defect, or without one, until a seed fails.
pub(super) fn run(program: &Path, planted: Option<&str>, bounds: Bounds) -> Result<Ran, String> {
    let Bounds { first, count, .. } = bounds;
    let mut command = Command::new(program);
    command.args([&first.to_string(), "--count", &count.to_string()]);
    command.env_remove(SWITCH);
    if let Some(name) = planted {
        command.env(SWITCH, name);
    }
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|e| format!("could not start {}: {e}", program.display()))?;
    let ran = follow(&mut child, bounds);
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
    ran
}

/// Returns the lines of the program, and its end.
fn lines(child: &mut Child) -> Result<Receiver<String>, String> {
    let (said, lines) = mpsc::channel();
    let output = child.stdout.take().ok_or("the program has no output")?;
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if said.send(line).is_err() {
                return;
            }
        }
    });
    Ok(lines)
}

fn follow(child: &mut Child, bounds: Bounds) -> Result<Ran, String> {
    let lines = lines(child)?;
    let ends = Instant::now() + bounds.over;
    let mut said = Said::default();
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left.min(bounds.silence)) {
            Ok(line) if said.take(&line) => break,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if left > bounds.silence => {
                let seed = bounds.first + said.seeds;
                let why = format!("seed {seed} has not ended after {:?}", bounds.silence);
                return Ok(said.failed(&why));
            }
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().map_err(|e| format!("could not wait: {e}"))?;
                if !status.success() && said.why.is_none() {
                    return Ok(said.failed(&format!("the program has ended: {status}")));
                }
                break;
            }
        }
    }
    Ok(match &said.why {
        Some(why) => said.failed(why),
        None => Ran::Clean(said.seeds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            first: 7,
            count: 3,
            over: Duration::from_secs(60),
            silence: Duration::from_secs(30),
        }
    }

    /// Runs a shell in the place of the program: its arguments are the name of the script, and those of the program.
    fn shell(script: &str, bounds: Bounds) -> Ran {
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ran = follow(&mut child, bounds).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        ran
    }

    #[test]
    fn seeds_are_counted_until_one_fails() {
        let clean = "echo 'seed 7: 3 tasks'; echo '  noise'; echo 'seed 8: 3 tasks'";
        assert_eq!(shell(clean, bounds()), Ran::Clean(2));
        let failed = |seeds, why: &str| Ran::Failed {
            seeds,
            why: why.to_owned(),
        };
        let one = format!("{clean}; echo 'seed 8 FAILED: the run was not over'; exit 1");
        assert_eq!(shell(&one, bounds()), failed(2, "the run was not over"));
        let list = format!(
            "{clean}; echo 'seed 8 FAILED: 2 violations:'; echo '  no end: t'; exec sleep 60"
        );
        assert_eq!(shell(&list, bounds()), failed(2, "2 violations: no end: t"));
    }

    #[test]
    fn a_program_that_is_ended_by_a_signal_and_a_seed_without_an_end_are_failures() {
        let Ran::Failed { seeds: 1, why } = shell("kill -9 $$", bounds()) else {
            panic!("a signal is a failure")
        };
        assert!(why.starts_with("the program has ended: signal: 9"), "{why}");
        let silent = Bounds {
            silence: Duration::from_millis(50),
            ..bounds()
        };
        let Ran::Failed { why, .. } = shell("exec sleep 60", silent) else {
            panic!("a seed without an end is a failure")
        };
        assert_eq!(why, "seed 7 has not ended after 50ms");
        let short = Bounds {
            over: Duration::from_millis(50),
            ..bounds()
        };
        assert_eq!(shell("exec sleep 60", short), Ran::Clean(0));
    }
}
