//! [`NotRun`]: why a command did not run, and whether that counts as an attempt of its task.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::timeout;
use tracing::warn;
use windlass::{MachineFault, Message, TaskContext, statemachine::text::of_io};

use super::{leftover::NotEnded, operators, props::Props};

/// How long the engine may take to report a lost claim.
const REPORT: Duration = Duration::from_secs(1);

/// Why a command produced no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotRun {
    /// The attempt failed.
    Attempt(String),
    /// This machine cannot run commands at present. Does not count as an attempt of the task.
    Machine(String),
    /// Another node has the task, or may have it. Does not count as an attempt of the task.
    ClaimLost(String),
}

impl From<NotEnded> for NotRun {
    fn from(error: NotEnded) -> Self {
        let reason = error.to_string();
        match error {
            NotEnded::OtherClaim(_) => Self::ClaimLost(reason),
            NotEnded::Lives(_) => Self::Attempt(reason),
        }
    }
}

impl From<String> for NotRun {
    fn from(reason: String) -> Self {
        Self::Attempt(reason)
    }
}

impl NotRun {
    /// Classifies the error of a program that could not be started.
    pub(super) fn start(props: &Props, error: &io::Error) -> Self {
        let program = &props.program.to_string();
        match MachineFault::of(error) {
            Some(fault) => Self::Machine(format!("could not start '{program}': {fault}")),
            None => {
                let hint = match error.kind() {
                    io::ErrorKind::NotFound => operators::for_missing(program),
                    _ => None,
                };
                let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                let place = in_own_folder(props).map_or(String::new(), |folder| {
                    let folder = folder.display();
                    format!(" in {folder}, the worker's folder; give --cwd ('cwd' in the props)")
                });
                if is_folder(props) {
                    return Self::Attempt(format!(
                        "'{program}' cannot be run: it is a folder{place}; give the program to run"
                    ));
                }
                Self::Attempt(format!(
                    "'{program}' cannot be run: {}{place}{hint}",
                    of_io(error)
                ))
            }
        }
    }

    /// Classifies the error of a file or folder that windlass keeps for the task.
    pub(super) fn own_file(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        Self::Machine(match MachineFault::of(error) {
            Some(fault) => format!("could not write '{path}': {fault}"),
            None => format!(
                "could not write '{path}': {}; check that this user can write in that folder",
                of_io(error)
            ),
        })
    }

    /// Returns the message to the task.
    pub(super) async fn message(self, task: &TaskContext) -> Message {
        match self {
            Self::Attempt(reason) => Message::error(reason),
            Self::Machine(reason) => task.node_fault(reason),
            Self::ClaimLost(reason) => {
                warn!(reason, "the command was not started: the claim is lost");
                // The store rejects this message. If it does not (because an older backup was restored,
                // and fences repeat), no attempt is counted, and the node does not try again at once.
                if task.lease_left().is_zero() {
                    return Message::release();
                }
                match timeout(REPORT, task.stop_requested()).await {
                    Ok(stop) => stop.message(),
                    Err(_) => Message::release(),
                }
            }
        }
    }
}

/// Returns whether the path of the program is that of a folder on this machine.
fn is_folder(props: &Props) -> bool {
    let program = PathBuf::from(props.program.to_os_string());
    let at = props.cwd.as_ref().map(|cwd| cwd.join(&program));
    props.program.as_bytes().contains(&b'/') && at.unwrap_or(program).is_dir()
}

/// Returns the worker's folder, if the path of the program is relative to it.
fn in_own_folder(props: &Props) -> Option<PathBuf> {
    let program = PathBuf::from(props.program.to_os_string());
    let counts = program.is_relative() && program.components().count() > 1;
    match counts && props.cwd.is_none() {
        true => std::env::current_dir().ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    fn props(text: &str) -> Props {
        Props::parse(&windlass::Json::parse("props", text).unwrap()).unwrap()
    }

    #[test]
    fn a_path_that_counts_from_the_workers_folder_is_reported_with_it() {
        let start = |text| match NotRun::start(&props(text), &Errno::ENOENT.into()) {
            NotRun::Attempt(reason) => reason,
            NotRun::Machine(reason) | NotRun::ClaimLost(reason) => panic!("{reason}"),
        };
        let folder = std::env::current_dir().unwrap();
        let place = format!(
            "'./here.sh' cannot be run: No such file or directory in {}, the worker's \
             folder; give --cwd ('cwd' in the props)",
            folder.display()
        );
        assert_eq!(start(r#"{"command":"./here.sh"}"#), place);
        for text in [
            r#"{"command":"./here.sh","cwd":"/tmp"}"#,
            r#"{"command":"/here.sh"}"#,
            r#"{"command":"here.sh"}"#,
        ] {
            assert!(!start(text).contains("folder"), "{text}");
        }
    }

    #[test]
    fn a_folder_is_no_program() {
        for text in [r#"{"command":"/usr"}"#, r#"{"command":"./usr","cwd":"/"}"#] {
            let NotRun::Attempt(reason) = NotRun::start(&props(text), &Errno::EACCES.into()) else {
                panic!("{text} is a machine's fault");
            };
            assert!(reason.contains("it is a folder"), "{reason}");
        }
    }

    #[test]
    fn a_lack_of_the_machine_is_not_the_tasks_and_a_wrong_program_is() {
        let start = |errno: Errno| NotRun::start(&props(r#"{"command":"tar"}"#), &errno.into());
        for errno in [Errno::EMFILE, Errno::EAGAIN, Errno::ENOMEM, Errno::ETXTBSY] {
            let NotRun::Machine(reason) = start(errno) else {
                panic!("{errno} is not the task's");
            };
            assert!(reason.starts_with("could not start 'tar': "), "{reason}");
        }
        for errno in [Errno::ENOENT, Errno::EACCES, Errno::ENOEXEC, Errno::E2BIG] {
            assert!(matches!(start(errno), NotRun::Attempt(_)), "{errno}");
        }
    }

    #[test]
    fn the_own_files_are_the_machines_whatever_the_error() {
        for (errno, says) in [
            (Errno::ENOSPC, "free space on that disk"),
            (Errno::EACCES, "check that this user can write"),
            (Errno::ENOTDIR, "check that this user can write"),
        ] {
            let error = io::Error::from(errno);
            let NotRun::Machine(reason) = NotRun::own_file(Path::new("/data/x"), &error) else {
                panic!("{errno} is not the task's");
            };
            let begins = reason.starts_with("could not write '/data/x': ");
            assert!(begins && reason.contains(says), "{reason}");
        }
    }
}
