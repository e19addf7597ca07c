//! A release: what it consists of, and its rehearsal. The workflow `.github/workflows/release.yml` runs these chores on each
//! kind of machine, and publishes what they leave in `target/dist`. How a release is made: `docs/internals/releasing.md`.

mod archive;
mod changelog;
mod crates;
mod elf;
mod install;
mod licences;
mod part;
mod request;
mod semver;
mod sums;
mod tags;
mod targets;
mod wheel;
#[cfg(test)]
mod workflows;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{root, target, tools};
use part::Part;
use request::{Rehearsal, Request};

pub(crate) use semver::semver;
pub(crate) use tags::last as last_release;

/// The version of the workspace, which every file of a release has.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `cargo xtask release`.
///
/// # Errors
///
/// When the arguments are wrong, when something cannot be built, and when what was built is not what it should be.
pub(crate) fn release(args: &[String]) -> Result<(), String> {
    match request::read(args)? {
        Request::Rehearse(rehearsal) => rehearse(&rehearsal),
        Request::Plan => plan(),
        Request::Prepare { date } => prepare(&date),
        Request::Notes => {
            println!("{}", changelog::notes(&changelog_of(&root())?, VERSION)?);
            Ok(())
        }
        Request::Sums { folder } => sums::write(&folder),
    }
}

/// Where the files of a release are built.
fn dist() -> PathBuf {
    target().join("dist")
}

/// Builds and tries the parts, one after the other.
fn rehearse(rehearsal: &Rehearsal) -> Result<(), String> {
    let host = targets::host()?;
    let wanted = rehearsal.target.as_deref().unwrap_or(&host);
    let protoc = tools::protoc(&root())?;
    fs::create_dir_all(dist()).map_err(|e| fault(&dist(), &e))?;
    for part in &rehearsal.parts {
        match part {
            Part::Crates => crates::rehearse(&protoc)?,
            Part::Program => archive::rehearse(&protoc, wanted, rehearsal)?,
            Part::Wheel => wheel::rehearse(&protoc, wanted, rehearsal)?,
        }
    }
    sums::write(&dist())?;
    for line in targets::not_built(wanted, &rehearsal.parts) {
        eprintln!("    NOT BUILT HERE: {line}");
    }
    eprintln!(
        "==> the rehearsal is complete: {} has the files",
        dist().display()
    );
    Ok(())
}

/// Prints whether a release is due, in the form that a workflow reads.
fn plan() -> Result<(), String> {
    let text = changelog_of(&root())?;
    let tag = tags::of(VERSION);
    let is_tagged = tags::exists(&root(), &tag)?;
    let due = changelog::is_due(&text, VERSION, is_tagged)?;
    match &due {
        Ok(date) => eprintln!(
            "==> {VERSION} is due: the changelog dates it {date}, and {tag} is no tag yet"
        ),
        Err(why) => eprintln!("==> no release is due: {why}"),
    }
    println!("version={VERSION}\ntag={tag}\ndue={}", due.is_ok());
    Ok(())
}

/// Writes the version of the crates and the date of the release where the release needs them.
fn prepare(date: &str) -> Result<(), String> {
    let root = root();
    crate::python::write_versions(&root)?;
    let text = changelog_of(&root)?;
    let prepared = changelog::prepare(&text, VERSION, date)?;
    let file = root.join(changelog::FILE);
    fs::write(&file, prepared).map_err(|e| fault(&file, &e))?;
    eprintln!(
        "==> {} and the Python package have the version {VERSION}",
        changelog::FILE
    );
    Ok(())
}

fn changelog_of(root: &Path) -> Result<String, String> {
    let file = root.join(changelog::FILE);
    fs::read_to_string(&file).map_err(|e| fault(&file, &e))
}

/// The error of a file that could not be used.
fn fault(file: &Path, error: &io::Error) -> String {
    format!("could not use {}: {error}", file.display())
}

/// Makes a folder that is empty.
fn empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| fault(folder, &e))?;
    }
    fs::create_dir_all(folder).map_err(|e| fault(folder, &e))
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| fault(folder, &e))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| fault(folder, &e))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The name of a file, without its folder.
fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Deletes those files of the release that an earlier rehearsal of a part has left.
fn delete_old(is_of_part: impl Fn(&str) -> bool) -> Result<(), String> {
    for file in files(&dist())? {
        if is_of_part(&name(&file)) {
            fs::remove_file(&file).map_err(|e| fault(&file, &e))?;
        }
    }
    Ok(())
}
