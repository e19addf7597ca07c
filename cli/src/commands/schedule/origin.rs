//! The origin of an imported schedule: a label of its task, by which a later import of the same crontab finds it.

use std::fs;

use windlass::{
    Client, TaskId,
    schedule::KIND,
    statemachine::task::MAX_LABEL_BYTES,
    store::{Filter, Page},
};

use crate::{exit::Failure, hash::hex};

/// The label that names the crontab of an imported schedule.
pub(super) const LABEL: &str = "crontab";

/// The label with the number of the line from which a schedule was created.
pub(super) const LINE: &str = "crontab-line";

/// How many tasks one call reads.
const PAGE: u32 = 1000;

/// A crontab.
pub(super) struct Origin {
    /// This machine, and the path of the file or `-`.
    pub(super) name: String,
    /// Whether it is a file: different crontabs may come from standard input.
    pub(super) is_file: bool,
    /// Whether it is one of the system's, whose lines name a user.
    pub(super) is_of_system: bool,
}

/// Returns what a file of the command line is.
pub(super) fn of(file: &str) -> Origin {
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim();
    let path = match file {
        "-" => file.to_owned(),
        path => {
            fs::canonicalize(path).map_or_else(|_| path.to_owned(), |at| at.display().to_string())
        }
    };
    Origin {
        name: named(machine, &path),
        is_file: file != "-",
        is_of_system: path == "/etc/crontab" || path.starts_with("/etc/cron.d/"),
    }
}

/// Returns a name that is a valid label. A path that is not valid is replaced by a hash.
fn named(machine: &str, path: &str) -> String {
    let name = format!("{machine}:{path}");
    let is_label =
        name.len() <= MAX_LABEL_BYTES && !name.contains(',') && !name.contains(char::is_control);
    match is_label {
        true => name,
        false => hex(&[name.as_bytes()], 32),
    }
}

/// Returns the live schedules from this crontab, in the order of their submits.
pub(super) async fn present(client: &Client, origin: &Origin) -> Result<Vec<TaskId>, Failure> {
    let filter = Filter::new()
        .kind(KIND.parse()?)
        .labels([(LABEL.to_owned(), Some(origin.name.clone()))]);
    let (mut after, mut present) = (0, Vec::new());
    loop {
        let records = client.list(&filter, Page::new(PAGE).after(after)).await?;
        let Some(last) = records.last() else {
            return Ok(present);
        };
        after = last.order;
        let live = records.into_iter().filter(|record| {
            let state = record.state.as_ref();
            !state.is_ok_and(|state| state.code().is_terminal())
        });
        present.extend(live.map(|record| record.task.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crontab_has_a_name_that_a_label_can_have() {
        assert_eq!(named("build-1", "/etc/tab"), "build-1:/etc/tab");
        let long = "/x".repeat(MAX_LABEL_BYTES);
        for path in ["/a,b", "/a\nb", long.as_str()] {
            assert_eq!(named("build-1", path).len(), 32, "{path}");
            assert_ne!(named("build-1", path), named("build-2", path));
        }
    }
}
