//! The wheel: the program `windlass` and the Python package, built by the command line of maturin. `pip install` of the folder
//! uses another backend, which builds the package alone.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{Environment, Python, folder, found, sdk};
use crate::{bounded, root, run, target, tools};

/// The longest that the source distribution may take. It takes 2 seconds.
const SDIST: Duration = Duration::from_secs(120);
/// The longest that the build may take.
const BUILD: Duration = Duration::from_secs(900);
/// The longest that the check of the installed wheel may take. It takes 5 seconds.
const CHECK: Duration = Duration::from_secs(180);
/// How the program is built for the check: fast to build. What `cargo test` builds has other features (those of all crates
/// together), so little of it could be used, and the program of that build would be replaced by this one.
const QUICK: [&str; 8] = [
    "--profile",
    "dev",
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.package.\"*\".debug=false",
    "--config",
    "profile.dev.package.\"*\".opt-level=0",
];

/// `cargo xtask wheel`: the source distribution and a release wheel, in `target/wheels`. The arguments go to
/// `maturin build`.
///
/// # Errors
///
/// When one cannot be built.
pub(crate) fn release(args: &[String]) -> Result<(), String> {
    build(&target().join("wheels"), &tools::protoc(&root())?, args)
}

/// Builds the source distribution and a release wheel into a folder.
///
/// # Errors
///
/// When one cannot be built.
pub(crate) fn build(wheels: &Path, protoc: &Path, args: &[String]) -> Result<(), String> {
    let pythons = found::all()?;
    let maturin = maturin(pythons.last().ok_or("no Python was found")?)?;
    let mut sdist = maturin.command("maturin");
    run(
        "the source distribution",
        sdist.args(["sdist", "--out"]).arg(wheels),
    )?;
    let mut build = maturin.command("maturin");
    build
        .args(["build", "--release", "--locked", "--out"])
        .arg(wheels);
    run("the wheel", build.env("PROTOC", protoc).args(args))
}

/// Installs a wheel in an environment of its own, and checks it there. `empty` makes the command of a program that sees
/// nothing of this machine.
///
/// # Errors
///
/// When it cannot be installed, or does not work.
pub(crate) fn try_installed(
    wheel: &Path,
    empty: impl FnOnce(&Path) -> Command,
) -> Result<(), String> {
    let pythons = found::all()?;
    let python = pythons.last().ok_or("no Python was found")?;
    let environment = Environment::of_wheels(python, "the-release", &[wheel.to_path_buf()])?;
    let mut check = empty(&environment.program("python"));
    check.arg("-I").arg(sdk().join("check_wheel.py"));
    let what = format!(
        "{}: the installed wheel, in an empty environment",
        python.name()
    );
    bounded::run(&what, CHECK, &mut check)
}

fn maturin(python: &Python) -> Result<Environment, String> {
    Environment::make(python, "wheel", &["wheel.txt"])
}

/// Builds the source distribution, a wheel from its files, and installs that in an environment of its own:
/// `sdk/python/check_wheel.py` says whether it works.
///
/// # Errors
///
/// When one of these fails.
pub(super) fn check(builder: &Python, user: &Python) -> Result<(), String> {
    let maturin = maturin(builder)?;
    let sources = sources(&maturin)?;
    let wheels = folder().join("wheels");
    empty(&wheels)?;
    let mut build = maturin.command("maturin");
    build
        .current_dir(&sources)
        .args(["build", "--locked"])
        .args(QUICK);
    build
        .arg("--target-dir")
        .arg(folder().join("build"))
        .arg("--out")
        .arg(&wheels);
    bounded::run("the wheel, from the source distribution", BUILD, &mut build)?;
    let environment = Environment::of_wheels(user, "the-wheel", &files(&wheels)?)?;
    let mut check = environment.command("python");
    check
        .current_dir(folder())
        .arg("-I")
        .arg(sdk().join("check_wheel.py"));
    bounded::run(
        &format!("{}: the installed wheel", user.name()),
        CHECK,
        &mut check,
    )
}

/// The files of the source distribution. Those of the run before stay if they are the same: cargo builds nothing again.
fn sources(maturin: &Environment) -> Result<PathBuf, String> {
    let (made, unpacked) = (folder().join("sdist"), folder().join("sources"));
    let kept = unpacked.join("archive.tar.gz");
    empty(&made)?;
    let mut sdist = maturin.command("maturin");
    sdist.args(["sdist", "--out"]).arg(&made);
    // It first looks for a Cargo.toml beside the pyproject.toml: cargo prints that there is none.
    bounded::run("the source distribution", SDIST, &mut sdist)?;
    let archives = files(&made)?;
    let [archive] = &archives[..] else {
        return Err(format!(
            "maturin has made {archives:?}, and not one archive"
        ));
    };
    let fault = |e: io::Error| format!("{} cannot be unpacked: {e}", archive.display());
    let bytes = fs::read(archive).map_err(fault)?;
    if !fs::read(&kept).is_ok_and(|kept| kept == bytes) {
        empty(&unpacked)?;
        let mut tar = Command::new("tar");
        // With the present time: the files have a fixed one, by which cargo would take a changed file for the one that
        // it has built.
        tar.arg("xzmf").arg(archive).arg("-C").arg(&unpacked);
        bounded::run("unpack the source distribution", SDIST, &mut tar)?;
        fs::write(&kept, bytes).map_err(fault)?;
    }
    Ok(unpacked.join(format!("windlass_tasks-{}", env!("CARGO_PKG_VERSION"))))
}

/// Makes a folder that is empty.
fn empty(folder: &Path) -> Result<(), String> {
    let fault = |e: io::Error| format!("{} cannot be emptied: {e}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(fault)?;
    }
    fs::create_dir_all(folder).map_err(fault)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fault = |e: io::Error| format!("{} cannot be read: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(fault)?;
    entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(fault))
        .collect()
}
