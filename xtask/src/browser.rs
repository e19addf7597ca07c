//! The tests of the dashboard in a real Chromium (`server/tests/browser`).

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{bounded, cargo, root, tools};

/// How long all tests may take, without the build.
const LIMIT: Duration = Duration::from_secs(8 * 60);
/// How long npm may take.
const FETCH: Duration = Duration::from_secs(120);
/// The version of axe-core, whose rules the pages keep.
const AXE: &str = "axe-core@4.14.1";

/// Runs the tests; `args` go to them.
///
/// # Errors
///
/// When Chromium or axe-core cannot be fetched, the build or a test fails, or the tests take longer than 8 minutes.
pub(crate) fn browser(args: &[String]) -> Result<(), String> {
    let axe = axe(&root())?;
    let mut tests = tests(args)?;
    // The pictures and the figures are no tests.
    tests.args(["--skip", "pictures", "--skip", "figures"]);
    tests.env("WINDLASS_AXE", axe);
    bounded::run("the dashboard in Chromium", LIMIT, &mut tests)
}

/// Takes the pictures of the dashboard.
///
/// # Errors
///
/// When Chromium cannot be fetched, or a page does not show what a picture has.
pub(crate) fn pictures(folder: &str) -> Result<(), String> {
    let mut tests = tests(&["pictures".to_owned()])?;
    tests.env("WINDLASS_PICTURES", root().join(folder));
    bounded::run("the pictures of the dashboard", LIMIT, &mut tests)
}

/// Measures the dashboard of the program with a million tasks.
///
/// # Errors
///
/// When Chromium cannot be fetched, or a page does not open.
pub(crate) fn figures(program: &Path) -> Result<(), String> {
    let mut tests = tests(&["figures".to_owned(), "--nocapture".to_owned()])?;
    tests.env("WINDLASS_CLI", program);
    bounded::run("the figures of the dashboard", LIMIT, &mut tests)
}

const TESTS: [&str; 5] = ["test", "--workspace", "--all-features", "--test", "browser"];

/// Builds the tests.
///
/// # Errors
///
/// When the build fails.
pub(crate) fn build() -> Result<(), String> {
    let mut build = cargo();
    build.args(TESTS).arg("--no-run");
    build.env("PROTOC", tools::protoc(&root())?);
    super::run("build of the tests in Chromium", &mut build)
}

/// Builds the tests, and returns the command that runs those in a browser, one after another.
fn tests(args: &[String]) -> Result<Command, String> {
    let root = root();
    let (chromium, driver) = tools::chromium()?;
    build()?;
    let mut test = cargo();
    test.args(TESTS).env("PROTOC", tools::protoc(&root)?);
    test.args(["--", "--ignored", "--test-threads=1"])
        .args(args);
    test.env("WINDLASS_CHROMIUM", chromium);
    test.env("WINDLASS_CHROMEDRIVER", driver);
    Ok(test)
}

/// Returns the script of axe-core, which npm fetches once.
fn axe(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools/axe");
    let script = folder.join("node_modules/axe-core/axe.min.js");
    if !script.is_file() {
        let mut npm = Command::new(tools::npm()?);
        npm.args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
        ]);
        bounded::run("fetching axe-core", FETCH, npm.arg(&folder).arg(AXE))?;
    }
    match script.is_file() {
        true => Ok(script),
        false => Err(format!("npm did not fetch {AXE} into {}", folder.display())),
    }
}
