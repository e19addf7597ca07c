//! The wheel, which has the Python package and the program, and the source distribution.

use std::path::{Path, PathBuf};

use super::{VERSION, delete_old, dist, files, install, name, request::Rehearsal, targets};
use crate::python;

/// How the names of both begin: that of the distribution, as PyPI writes it in files.
const BEGINS: &str = "windlass_tasks-";

/// Builds both, and runs the example of the README with the installed wheel in an empty environment.
///
/// # Errors
///
/// When one cannot be built, or the wheel does not work.
pub(super) fn rehearse(protoc: &Path, triple: &str, asked: &Rehearsal) -> Result<(), String> {
    let has_wheel = targets::TARGETS
        .iter()
        .any(|t| t.triple == triple && t.has_wheel);
    if !has_wheel {
        return Err(format!(
            "could not build a wheel for {triple}: its machines install the source distribution (leave `wheel` out of --only)"
        ));
    }
    delete_old(|name| name.starts_with(BEGINS))?;
    let mut args: Vec<String> = vec!["--features".to_owned(), targets::FEATURES.to_owned()];
    if let Some(target) = &asked.target {
        args.extend(["--target".to_owned(), target.clone()]);
    }
    python::build_wheel(&dist(), protoc, &args)?;
    let built = files(&dist())?;
    let built: Vec<&PathBuf> = built
        .iter()
        .filter(|file| name(file).starts_with(BEGINS))
        .collect();
    let [wheel] = built
        .iter()
        .filter(|file| name(file).ends_with(".whl"))
        .collect::<Vec<_>>()[..]
    else {
        return Err(format!("maturin has made {built:?}, and not one wheel"));
    };
    let sdist = format!("{BEGINS}{VERSION}.tar.gz");
    if !built.iter().any(|file| name(file) == sdist) {
        return Err(format!("maturin has made {built:?}, without {sdist}"));
    }
    let environment = install::Environment::make("wheel")?;
    python::try_wheel(wheel, |program| environment.command(program))
}
