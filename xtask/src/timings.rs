//! `cargo xtask timings`: how long the README's first command takes to build, and where the time goes.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;

use crate::{cargo, root, run};

/// The package of the README's first command.
const PACKAGE: &str = "windlass-cli";
/// How many of the slowest units are printed.
const PRINTED: usize = 20;

/// One unit of the build, in cargo's report.
#[derive(Deserialize)]
struct Unit {
    name: String,
    target: String,
    /// In seconds.
    duration: f64,
}

/// What a build took.
struct Build {
    wall: Duration,
    processor: Duration,
    units: Vec<Unit>,
}

/// Builds the program of the README's first command in an empty folder, and prints where the time went.
///
/// # Errors
///
/// When the build fails, its report cannot be read, or it takes more processor time than `--limit SECONDS`.
pub(crate) fn timings(args: &[String]) -> Result<(), String> {
    let limit = match args {
        [] => None,
        [option, seconds] if option == "--limit" => {
            let wrong = |_| format!("--limit: '{seconds}' is not a number of seconds");
            Some(Duration::from_secs(seconds.parse().map_err(wrong)?))
        }
        _ => return Err("write: cargo xtask timings [--limit SECONDS]".to_owned()),
    };
    let build = build(&root().join("target/timings"))?;
    print!("{}", table(&build));
    match limit {
        Some(limit) if build.processor > limit => Err(format!(
            "the build took {} s of processor time, more than {} s: see which crate above is new or has grown",
            build.processor.as_secs(),
            limit.as_secs()
        )),
        _ => Ok(()),
    }
}

fn build(folder: &Path) -> Result<Build, String> {
    let started = Instant::now();
    run(
        "download of the crates",
        cargo().args(["fetch", "--locked"]),
    )?;
    println!(
        "download of the crates: {:.0} s",
        started.elapsed().as_secs_f64()
    );
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{} could not be removed: {e}", folder.display()));
        }
        _ => {}
    }
    let mut build: Command = cargo();
    build.args(["build", "--timings", "--package", PACKAGE]);
    build.env("CARGO_TARGET_DIR", folder);
    let (before, started) = (processor_time()?, Instant::now());
    run("build of the first command", &mut build)?;
    Ok(Build {
        wall: started.elapsed(),
        processor: processor_time()?.saturating_sub(before),
        units: units(&folder.join("cargo-timings/cargo-timing.html"))?,
    })
}

/// Returns the processor time of the processes that have ended.
fn processor_time() -> Result<Duration, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| format!("getrusage: {e}"))?;
    let micros = |seconds: i64, micros: i64| {
        let micros = seconds.saturating_mul(1_000_000).saturating_add(micros);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    let (user, system) = (usage.user_time(), usage.system_time());
    Ok(micros(user.tv_sec(), user.tv_usec()) + micros(system.tv_sec(), system.tv_usec()))
}

fn units(report: &Path) -> Result<Vec<Unit>, String> {
    let name = report.display();
    let text = fs::read_to_string(report).map_err(|e| format!("{name}: {e}"))?;
    read_units(&text).map_err(|why| format!("{name}: {why}"))
}

/// Reads the list that cargo writes into its page as JSON.
fn read_units(page: &str) -> Result<Vec<Unit>, String> {
    let list = page.split_once("const UNIT_DATA = ");
    let list = list
        .ok_or("there is no UNIT_DATA: another version of cargo?")?
        .1;
    let mut read = serde_json::Deserializer::from_str(list).into_iter();
    let units = read.next().ok_or("UNIT_DATA is empty")?;
    units.map_err(|e| format!("UNIT_DATA: {e}"))
}

fn table(build: &Build) -> String {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in &build.units {
        let part = match () {
            () if unit.name.starts_with("windlass") => "our crates",
            () if unit.target.contains("build-script") => "build scripts of dependencies",
            () => "dependencies",
        };
        *sums.entry(part).or_default() += unit.duration;
    }
    let mut text = format!(
        "{} units, {:.0} s, {:.0} s of processor time\n",
        build.units.len(),
        build.wall.as_secs_f64(),
        build.processor.as_secs_f64()
    );
    for (part, seconds) in sums {
        text.push_str(&format!("{seconds:8.1} s  {part}\n"));
    }
    text.push_str("the slowest:\n");
    let mut slowest: Vec<&Unit> = build.units.iter().collect();
    slowest.sort_by(|one, other| other.duration.total_cmp(&one.duration));
    for unit in slowest.into_iter().take(PRINTED) {
        text.push_str(&format!(
            "{:8.1} s  {}{}\n",
            unit.duration, unit.name, unit.target
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<script>const UNIT_DATA = [
        {"i":0,"name":"windlass","version":"0.1.0","target":"","duration":40.25,"sections":[]},
        {"i":1,"name":"libsqlite3-sys","target":" build-script (run)","duration":19.5},
        {"i":2,"name":"tokio","target":"","duration":4.5}];
        const MORE = [];</script>"#;

    #[test]
    fn the_table_has_the_sums_and_the_slowest_units_first() {
        let build = Build {
            wall: Duration::from_secs(30),
            processor: Duration::from_secs(60),
            units: read_units(PAGE).unwrap(),
        };
        let text = table(&build);
        assert!(
            text.starts_with("3 units, 30 s, 60 s of processor time\n"),
            "{text}"
        );
        assert!(text.contains("40.2 s  our crates"), "{text}");
        assert!(
            text.contains("19.5 s  build scripts of dependencies"),
            "{text}"
        );
        let slowest = text.split_once("the slowest:\n").unwrap().1;
        assert!(
            slowest.trim_start().starts_with("40.2 s  windlass\n"),
            "{text}"
        );
    }

    #[test]
    fn a_page_of_another_form_is_an_error() {
        assert!(read_units("<html>").is_err());
        assert!(timings(&["--limit".to_owned(), "soon".to_owned()]).is_err());
    }
}
