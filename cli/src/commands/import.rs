//! `windlass import`: reads a file of `windlass export` into the store.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use indicatif::ProgressBar;
use windlass::{
    Client,
    store::{
        Error,
        copy::{FileError, Import},
    },
};

use super::copy;
use crate::{
    exit::{Exit, Failure},
    global::Global,
};

/// The file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The store must be new, or have no tasks and no live nodes. Every line is checked before the first task is written, and every
task is read back and compared. An interrupted import continues when started again.

Examples:
  windlass import --store sqlite:new.db tasks.jsonl
  gunzip -c tasks.jsonl.gz | windlass import --store etcd://10.0.0.1:2379/jobs -")]
pub(crate) struct Args {
    /// The file that `windlass export` has written; - for standard input
    file: String,

    /// Import a file that names tasks which the export could not read. Tasks that wait for one of them run at once;
    /// the exit code is 1, since tasks are missing
    #[arg(long)]
    accept_missing: bool,
}

/// Imports.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let mut how = Import::new();
    how.accept_missing = args.accept_missing;
    // A refused file must not create a store.
    let file = open(&args.file, &how)?;
    let client = global.lasting().await?;
    let out = global.out();
    let mut bar: Option<ProgressBar> = None;
    let report = client
        .store()
        .import(&file, &how, |now| {
            let bar = bar.get_or_insert_with(|| out.progress(now.tasks, "import"));
            bar.set_position(now.done);
        })
        .await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = match report {
        Ok(report) => report,
        Err(error) => return Err(interrupted(&client, &args.file, error).await),
    };
    copy::show_import(&out, &report)?;
    Ok(if report.is_whole() {
        Exit::Ok
    } else {
        Exit::No
    })
}

/// Opens the file. Standard input is copied to a file without a name and checked line by line on the way, so that an
/// input that is not an export is rejected early. The copy disappears with this process, however that ends.
fn open(path: &str, how: &Import) -> Result<File, Failure> {
    if path != "-" {
        let file = File::open(path).map_err(|e| Failure::file(path, &e))?;
        let found = file.metadata().map_err(|e| Failure::file(path, &e))?;
        if !found.is_file() {
            let reason = "is not a regular file; name one, or - for standard input";
            return Err(Failure::Usage(format!("file: '{path}' {reason}")));
        }
        how.check(&file).map_err(|error| failure(path, error))?;
        return Ok(file);
    }
    let kept =
        tempfile::tempfile().map_err(|e| Failure::file("could not create a temporary file", &e))?;
    let from = Kept {
        from: io::stdin().lock(),
        to: &kept,
    };
    how.check(from).map_err(|error| failure(path, error))?;
    Ok(kept)
}

/// A reader that copies its bytes to a file.
struct Kept<'a, R> {
    from: R,
    to: &'a File,
}

impl<R: Read> Read for Kept<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        self.to.write_all(bytes).map(|()| read)
    }
}

/// Returns the failure of an import that has begun, with the number of tasks that the store has by now: the file is written in
/// many writes, and only the last one has failed.
async fn interrupted(client: &Client, file: &str, error: FileError) -> Failure {
    let is_refused = match &error {
        FileError::Store(Error::Invalid(_)) => true,
        error => matches!(
            error,
            FileError::NotEmpty { .. } | FileError::Incomplete { .. }
        ),
    };
    let counts = client.counts().await;
    let tasks = counts.map(|counts| counts.iter().map(|count| count.tasks).sum::<u64>());
    let there = match tasks {
        Ok(0) => return failure(file, error),
        _ if is_refused => return failure(file, error),
        Ok(1) => "1 task of the file is in the store".to_owned(),
        Ok(tasks) => format!("{tasks} tasks of the file are in the store"),
        Err(_) => "some tasks of the file may be in the store".to_owned(),
    };
    let text = match error {
        FileError::Store(error) => Failure::from(error).to_string(),
        error => format!("'{file}': {error}"),
    };
    Failure::Store(format!(
        "{text}; {there}: import the file again, it goes on from there"
    ))
}

fn failure(file: &str, error: FileError) -> Failure {
    match error {
        FileError::Store(Error::Invalid(busy)) if busy.field() == "to" => Failure::No(format!(
            "store: {}",
            busy.to_string().trim_start_matches("to: ")
        )),
        FileError::Store(error) => error.into(),
        FileError::Incomplete { count, first } => {
            let noun = if count == 1 { "task" } else { "tasks" };
            Failure::No(format!(
                "'{file}' lacks {count} {noun} that the export could not read ('{first}' for example), and tasks that wait \
                 for them would run at once; retry or delete them in the exported store and export it again, or give \
                 --accept-missing; nothing was written"
            ))
        }
        error @ FileError::NotEmpty { .. } => Failure::No(format!("nothing was written: {error}")),
        error => Failure::Usage(format!("'{file}': {error}; nothing was written")),
    }
}
