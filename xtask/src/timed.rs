//! A time limit for each program of `cargo test`: one that hangs would run into the limit of the whole run, and
//! nothing would name it.

use std::{
    env,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use crate::{failures, slowest};

/// The longest that the tests of one program may take, in seconds. The slowest take 3 minutes on two cores.
const LIMIT: &str = "900";

/// How long the output of a program may take after its end.
const LAST_OUTPUT: Duration = Duration::from_secs(30);

/// Names the programs of tests, with a comma between them, that another run of the same chore runs.
pub(crate) const ELSEWHERE: &str = "WINDLASS_TESTS_ELSEWHERE";

/// The chore that cargo runs with each program of tests.
pub(crate) const CHORE: &str = "timed";

/// Has cargo run each program through [`timed`].
///
/// # Errors
///
/// When rustc or this program cannot be found.
pub(crate) fn limit(test: &mut Command) -> Result<(), String> {
    let rustc = Command::new("rustc").arg("-vV").output();
    let rustc = rustc.map_err(|e| format!("rustc could not be started: {e}"))?;
    let text = String::from_utf8_lossy(&rustc.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc -vV names no host")?;
    let host = host.replace(['-', '.'], "_").to_uppercase();
    let this = env::current_exe().map_err(|e| format!("this program was not found: {e}"))?;
    // Cargo splits the text at blanks.
    let this = this.to_str().filter(|path| !path.contains(' '));
    if let Some(this) = this {
        let runner = format!("{this} {CHORE} {LIMIT}");
        test.env(format!("CARGO_TARGET_{host}_RUNNER"), runner);
    } else {
        eprintln!(
            "==> the path of this folder has a blank: the programs of tests run without a time limit"
        );
    }
    Ok(())
}

/// Runs `PROGRAM ARGS…` for as many seconds as the first argument says, and returns its exit code.
///
/// # Errors
///
/// When it cannot be started, and when it was ended because its time was over.
pub(crate) fn timed(args: &[String]) -> Result<u8, String> {
    let [seconds, program, args @ ..] = args else {
        return Err(format!("write: cargo xtask {CHORE} SECONDS PROGRAM [ARGS]"));
    };
    let wrong = |_| format!("'{seconds}' is no number of seconds");
    let limit = Duration::from_secs(seconds.parse().map_err(wrong)?);
    let elsewhere = env::var(ELSEWHERE).unwrap_or_default();
    if is_one_of(program, &elsewhere) {
        println!("     its tests run beside these, and their results are printed at the end");
        return Ok(0);
    }
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::piped());
    slowest::report(&mut command);
    let child = command.spawn();
    let mut child = child.map_err(|e| format!("{program} could not be started: {e}"))?;
    let output = child.stdout.take();
    let (copied, copying) = channel();
    thread::spawn(move || copied.send(output.map_or(Ok(()), failures::copy)));
    let status = within(limit, child).map_err(|why| format!("{program} {why}"))?;
    // A process that outlives its test may hold the output open.
    match copying.recv_timeout(LAST_OUTPUT) {
        Ok(Ok(())) => {}
        Ok(Err(e)) => return Err(format!("the output of {program} could not be copied: {e}")),
        Err(_) => eprintln!(
            "==> {program} has ended, and a process that one of its tests started still holds its output: the test \
             has to end what it starts"
        ),
    }
    let kept = slowest::keep_program(target_of(program), started.elapsed());
    kept.map_err(|e| format!("the time of {program} could not be kept: {e}"))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(101))
}

/// Returns whether cargo has built this program of tests from a target with one of these names.
fn is_one_of(program: &str, names: &str) -> bool {
    let mut names = names.split(',').filter(|name| !name.is_empty());
    names.any(|name| name == target_of(program))
}

/// Returns the name of the target that cargo has built this program from: that of the file, without the hash.
fn target_of(program: &str) -> &str {
    let file = Path::new(program)
        .file_name()
        .and_then(|name| name.to_str());
    let name = file.and_then(|file| file.rsplit_once('-'));
    name.map_or("", |(name, _hash)| name)
}

fn within(limit: Duration, mut child: Child) -> Result<ExitStatus, String> {
    let id = child.id().to_string();
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait()));
    match end.recv_timeout(limit) {
        Ok(status) => status.map_err(|e| format!("could not be waited for: {e}")),
        Err(RecvTimeoutError::Disconnected) => Err("could not be waited for".to_owned()),
        Err(RecvTimeoutError::Timeout) => {
            let killed = Command::new("kill").args(["-9", &id]).status();
            let killed = killed.map_err(|e| format!("could not be killed: {e}"));
            killed.and(Err(format!(
                "did not end within {limit:?} and was killed: a test hangs, one of those that have 'been running for \
                 over 60 seconds' above and no result"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<u8, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        timed(&args)
    }

    #[test]
    fn the_exit_code_is_that_of_the_program() {
        assert_eq!(run(&["60", "sh", "-c", "exit 7"]), Ok(7));
        assert_eq!(run(&["60", "sh", "-c", "kill -9 $$"]), Ok(101));
        assert!(
            run(&["60", "/no/such/program"])
                .unwrap_err()
                .contains("could not be started")
        );
        assert!(
            run(&["soon", "true"])
                .unwrap_err()
                .contains("'soon' is no number")
        );
    }

    #[test]
    fn a_program_that_runs_elsewhere_is_known_by_its_name_before_the_hash() {
        assert!(is_one_of("target/debug/deps/etcd-0a1b", "cli,etcd"));
        assert!(!is_one_of(
            "target/debug/deps/windlass_etcd_cluster-0a1b",
            "etcd"
        ));
        assert!(!is_one_of("target/debug/deps/stores-0a1b", ""));
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_named() {
        let error = run(&["0", "sleep", "600"]).unwrap_err();
        assert!(
            error.starts_with("sleep did not end within 0ns and was killed"),
            "{error}"
        );
    }
}
