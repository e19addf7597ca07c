//! The archive of the program: `windlass-vVERSION-TARGET.tar.gz`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    VERSION, changelog, delete_old, dist, elf, empty, fault, install, licences, name,
    request::Rehearsal, targets,
};
use crate::{cargo, root, run, target};

/// Files of the repository that go into the archive as they are.
const TEXTS: [&str; 4] = [
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "README.md",
    changelog::FILE,
];
/// The licences of the crates that the program contains.
const LICENCES: &str = "THIRD-PARTY-LICENSES.txt";
/// The scripts of `windlass completions`: shell, and the name that the shell looks for.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "windlass.bash"),
    ("fish", "windlass.fish"),
    ("zsh", "_windlass"),
];

/// Builds the program by the profile `release`, packs it, and runs what was packed in an empty environment.
///
/// # Errors
///
/// When a step fails; names it.
pub(super) fn rehearse(protoc: &Path, triple: &str, asked: &Rehearsal) -> Result<(), String> {
    delete_old(is_archive)?;
    let program = match &asked.program {
        Some(program) => {
            eprintln!("    NOT BUILT: {} is packed as it is", program.display());
            program.clone()
        }
        None => build(protoc, asked.target.as_deref())?,
    };
    elf::check(&program, triple, asked.glibc)?;
    let title = targets::archive(triple);
    let folder = target().join("release-files").join(&title);
    empty(&folder)?;
    stage(&program, triple, &folder)?;
    let archive = pack(&folder)?;
    let expected = expected(&title);
    let packed = listed(&archive)?;
    if packed != expected {
        return Err(format!(
            "{} has other files than a release has: {packed:?} instead of {expected:?}",
            name(&archive)
        ));
    }
    let environment = install::Environment::make("archive")?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(environment.home());
    run(&format!("unpacking {}", name(&archive)), &mut tar)?;
    let installed = environment.home().join(&title).join("windlass");
    install::try_program(&environment, &installed, VERSION)
}

/// Whether a file of the release has this name.
pub(super) fn is_archive(name: &str) -> bool {
    name.starts_with("windlass-v") && name.ends_with(".tar.gz")
}

fn build(protoc: &Path, triple: Option<&str>) -> Result<PathBuf, String> {
    let mut build = cargo();
    build.env("PROTOC", protoc);
    build.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "windlass-cli",
    ]);
    build.args(["--features", targets::FEATURES]);
    let folder = match triple {
        Some(triple) => {
            build.args(["--target", triple]);
            target().join(triple)
        }
        None => target(),
    };
    run("the program, by the profile release", &mut build)?;
    Ok(folder.join("release/windlass"))
}

/// Puts the files of the archive into a folder.
fn stage(program: &Path, triple: &str, folder: &Path) -> Result<(), String> {
    let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop).map_err(|e| fault(from, &e));
    copy(program, &folder.join("windlass"))?;
    for text in TEXTS {
        copy(&root().join(text), &folder.join(text))?;
    }
    let file = folder.join(LICENCES);
    fs::write(&file, licences::of(triple)?).map_err(|e| fault(&file, &e))?;
    let completions = folder.join("completions");
    empty(&completions)?;
    for (shell, file) in COMPLETIONS {
        let mut print = Command::new(folder.join("windlass"));
        let printed = print.args(["completions", shell]).output();
        let printed =
            printed.map_err(|e| format!("the packed program could not be started: {e}"))?;
        if !printed.status.success() || printed.stdout.is_empty() {
            return Err(format!("windlass completions {shell}: {}", printed.status));
        }
        let file = completions.join(file);
        fs::write(&file, printed.stdout).map_err(|e| fault(&file, &e))?;
    }
    Ok(())
}

/// Packs a folder. The same files give the same bytes: sorted, without an owner, with the time of the commit.
fn pack(folder: &Path) -> Result<PathBuf, String> {
    let title = name(folder);
    let archive = dist().join(format!("{title}.tar.gz"));
    // That of macOS has no such options; GNU's is named gtar there.
    let tar = if cfg!(target_os = "macos") {
        "gtar"
    } else {
        "tar"
    };
    let mut pack = Command::new(tar);
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    pack.args(["--mode=u=rwX,go=rX", &format!("--mtime=@{}", time()?)]);
    pack.args(["--use-compress-program", "gzip -n -9", "-cf"]);
    pack.arg(&archive)
        .arg("-C")
        .arg(folder.parent().unwrap_or(folder));
    run(&format!("packing {title}"), pack.arg(&title))?;
    Ok(archive)
}

/// The time of the commit, in seconds since 1970.
fn time() -> Result<String, String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["log", "-1", "--format=%ct"]);
    let out = git
        .output()
        .map_err(|e| format!("git: could not be started: {e}"))?;
    let time = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    match out.status.success() && !time.is_empty() {
        true => Ok(time),
        false => Err(format!(
            "git log: {}: the time of the commit is not known",
            out.status
        )),
    }
}

fn listed(archive: &Path) -> Result<Vec<String>, String> {
    let mut tar = Command::new("tar");
    let out = tar.arg("-tzf").arg(archive).output();
    let out = out.map_err(|e| format!("tar: could not be started: {e}"))?;
    if !out.status.success() {
        return Err(format!("{} cannot be read: {}", name(archive), out.status));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let mut names: Vec<String> = text
        .lines()
        .filter(|n| !n.ends_with('/'))
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

/// The files that an archive has, by name.
pub(super) fn expected(title: &str) -> Vec<String> {
    let files = TEXTS.into_iter().chain(["windlass", LICENCES]);
    let mut files: Vec<String> = files.map(|file| format!("{title}/{file}")).collect();
    let completions = COMPLETIONS
        .iter()
        .map(|(_, file)| format!("{title}/completions/{file}"));
    files.extend(completions);
    files.sort();
    files
}
