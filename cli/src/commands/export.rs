//! `windlass export`: writes all tasks of the store to a file.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    time::{Duration, Instant},
};

use tempfile::NamedTempFile;
use tokio::time::sleep;
use windlass::{
    statemachine::text::of_io,
    store::{
        Error, Store,
        copy::{FileError, Written},
    },
};

use super::copy::name;
use crate::{
    exit::{Exit, Failure},
    global::Global,
    output::Output,
    parse,
    text::counted,
};

/// Where to write, and how long to wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each task is a line of JSON with its state, data, result, errors, commands and history. No node may work on the
store: stop its nodes, or drain them (node drain NAME). The store is not changed. `windlass import` refuses a
truncated file.

Examples:
  windlass export tasks.jsonl
  windlass export | gzip > tasks.jsonl.gz
  windlass export --store etcd://10.0.0.1:2379/jobs --wait 1m backup.jsonl")]
pub(crate) struct Args {
    /// The file to make; - for standard output
    #[arg(default_value = "-")]
    file: String,

    /// Wait up to this long for the nodes of the store to release their tasks (30s, 5m, …)
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    wait: Option<Duration>,
}

/// Exports.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.existing().await?;
    let (store, out) = (client.store(), global.out());
    let written = match args.file.as_str() {
        "-" => write(store, BufWriter::new(io::stdout()), &args, &out).await?,
        path => {
            let path = Path::new(path);
            let new = New::beside(path)?;
            let written = write(store, BufWriter::new(new.file()), &args, &out).await?;
            new.keep(path)?;
            written
        }
    };
    show(&out, &written, &args.file)?;
    Ok(if written.is_whole() {
        Exit::Ok
    } else {
        Exit::No
    })
}

/// A file that gets its name only when it is complete.
enum New {
    /// It has no name yet, so it disappears with this process, however that ends.
    Nameless(File),
    /// Its folder does not allow a file without a name.
    Named(NamedTempFile),
}

impl New {
    fn beside(path: &Path) -> Result<Self, Failure> {
        let given = path.display().to_string();
        if path.symlink_metadata().is_ok() {
            return Err(exists(&given));
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Failure::Store(format!(
                "could not create '{given}': there is no folder '{}'; create it, or name another file",
                folder.display()
            )));
        }
        if let Some(file) = nameless(folder) {
            return Ok(Self::Nameless(file));
        }
        let file = NamedTempFile::new_in(folder);
        file.map(Self::Named)
            .map_err(|e| Failure::file(&format!("could not create '{given}'"), &e))
    }

    fn file(&self) -> &File {
        match self {
            Self::Nameless(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    fn keep(self, path: &Path) -> Result<(), Failure> {
        let given = path.display().to_string();
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(&given),
            _ => Failure::Store(format!("could not write '{given}': {}", of_io(&e))),
        };
        self.file().sync_all().map_err(failed)?;
        match self {
            Self::Nameless(file) => name_file(&file, path).map_err(failed),
            Self::Named(file) => {
                let kept = file.persist_noclobber(path);
                kept.map(drop).map_err(|e| failed(e.error))
            }
        }
    }
}

/// Creates a file without a name, if the system can.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = nix::fcntl::OFlag::O_TMPFILE.bits();
    let mut options = File::options();
    options.write(true).mode(0o600).custom_flags(flags);
    // Without /proc the file could not get a name.
    let can_be_named = Path::new("/proc/self/fd").is_dir();
    can_be_named.then(|| options.open(folder).ok()).flatten()
}

#[cfg(target_os = "linux")]
fn name_file(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let of = format!("/proc/self/fd/{}", file.as_raw_fd());
    let cwd = nix::fcntl::AT_FDCWD;
    let follow = nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW;
    Ok(nix::unistd::linkat(cwd, of.as_str(), cwd, path, follow)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn name_file(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn exists(path: &str) -> Failure {
    Failure::Usage(format!(
        "could not create '{path}': it exists; name another file, or delete it first"
    ))
}

async fn write(
    store: &Store,
    mut to: impl Write,
    args: &Args,
    out: &Output,
) -> Result<Written, Failure> {
    let started = Instant::now();
    loop {
        let mut bar = None;
        let written = store
            .export(&mut to, |now| {
                let bar = bar.get_or_insert_with(|| out.progress(now.tasks, "export"));
                bar.set_position(now.done);
            })
            .await;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        // Such an error comes before the first line.
        match (written, args.wait) {
            (Ok(written), _) => return Ok(written),
            (Err(FileError::Store(Error::Invalid(busy))), None) if busy.field() == "store" => {
                let hint = "; --wait waits until they have given their tasks back";
                return Err(Failure::No(format!("{busy}{hint}")));
            }
            (Err(FileError::Store(Error::Invalid(busy))), Some(wait))
                if busy.field() == "store" =>
            {
                if started.elapsed() >= wait {
                    return Err(Failure::Timeout(busy.to_string()));
                }
                sleep(Duration::from_millis(200)).await;
            }
            (Err(FileError::Store(error)), _) => return Err(error.into()),
            // Unlike a list, half an export is of no use to its reader.
            (Err(error @ FileError::Io { .. }), _) => {
                return Err(Failure::Store(format!("{error}; the export is not whole")));
            }
            (Err(error), _) => return Err(Failure::Store(error.to_string())),
        }
    }
}

fn show(out: &Output, written: &Written, file: &str) -> Result<(), Failure> {
    name(out, &written.left, "that are not in the file");
    for one in &written.outside {
        let why = one.refused.as_deref().unwrap_or("it waits");
        out.complain(format!("{}: {why}", one.what));
    }
    let tasks = counted(written.tasks, "task");
    let line = format!("{tasks} in '{file}'");
    match (file, out.is_json()) {
        ("-", _) => out.note(tasks + " exported"),
        (_, true) => out.json(written)?,
        (_, false) => out.line(line)?,
    }
    if written.tasks == 0 && written.left.is_empty() {
        out.note("note: the store has no tasks; if that is wrong, check --store");
    }
    if !written.left.is_empty() {
        out.note("tasks that cannot be read are named in the file; retry or delete them, then export again");
    }
    Ok(())
}
