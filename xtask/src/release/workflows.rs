//! The files for GitHub: they are read by nothing here, so that an error in them would be found by a release that fails.

use std::{collections::BTreeSet, fs, path::PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

use super::{archive, files, name, request, targets};
use crate::{HELP, packages::PUBLISHED, root};

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

fn parsed(file: &PathBuf) -> Yaml {
    let text = fs::read_to_string(file).unwrap();
    let mut documents = YamlLoader::load_from_str(&text)
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(documents.len(), 1, "{}", file.display());
    documents.remove(0)
}

/// The workflows, by the names of their files.
fn workflows() -> Vec<(String, Yaml)> {
    let files = files(&root().join(".github/workflows")).unwrap();
    let workflows: Vec<_> = files
        .iter()
        .map(|file| (name(file), parsed(file)))
        .collect();
    assert!(
        workflows.len() >= 3,
        "{} workflows were found",
        workflows.len()
    );
    workflows
}

fn jobs(workflow: &Yaml) -> Vec<(&str, &Yaml)> {
    let jobs = workflow["jobs"].as_hash().unwrap().iter();
    jobs.map(|(name, job)| (name.as_str().unwrap(), job))
        .collect()
}

/// The steps of all jobs, with the names of their files.
fn each_step(check: &mut dyn FnMut(&str, &Yaml, &Yaml)) {
    for (file, workflow) in workflows() {
        for (_, job) in jobs(&workflow) {
            for step in job["steps"].as_vec().unwrap() {
                check(&file, job, step);
            }
        }
    }
}

fn texts(list: &Yaml) -> Vec<&str> {
    match list {
        Yaml::String(one) => vec![one],
        Yaml::Array(many) => many.iter().filter_map(Yaml::as_str).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_job_has_a_limit_rights_and_steps_and_waits_for_jobs_that_exist() {
    for (file, workflow) in workflows() {
        assert!(!workflow["on"].is_badvalue(), "{file} starts at nothing");
        assert_eq!(
            workflow["permissions"]["contents"].as_str(),
            Some("read"),
            "{file}"
        );
        let jobs = jobs(&workflow);
        let names: BTreeSet<&str> = jobs.iter().map(|(name, _)| *name).collect();
        for (name, job) in jobs {
            assert!(
                job["timeout-minutes"].as_i64().is_some(),
                "{file}: {name} has no limit"
            );
            assert!(
                job["runs-on"].as_str().is_some(),
                "{file}: {name} runs nowhere"
            );
            for needed in texts(&job["needs"]) {
                assert!(names.contains(needed), "{file}: {name} waits for {needed}");
            }
            for step in job["steps"].as_vec().unwrap() {
                let (uses, run) = (step["uses"].as_str(), step["run"].as_str());
                assert!(uses.is_some() != run.is_some(), "{file}: {name}: {step:?}");
            }
        }
    }
}

/// A branch such as `main` may become something else at any time.
#[test]
fn every_action_is_pinned_by_a_version() {
    let mut checked = 0;
    each_step(&mut |file, _, step| {
        let Some(uses) = step["uses"].as_str() else {
            return;
        };
        let (action, version) = uses.split_once('@').unwrap();
        let is_number = version.strip_prefix('v').is_some_and(|numbers| {
            numbers
                .split('.')
                .all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        });
        // Two that name their versions otherwise.
        let is_known = matches!(
            uses,
            "dtolnay/rust-toolchain@stable" | "pypa/gh-action-pypi-publish@release/v1"
        );
        assert!(
            is_number || is_known,
            "{file}: {action} is pinned by {version}"
        );
        checked += 1;
    });
    assert!(checked > 30, "{checked} uses were found");
}

/// The chores, as their help lists them.
fn chores() -> BTreeSet<&'static str> {
    let lines = HELP
        .lines()
        .filter_map(|line| line.strip_prefix("  cargo xtask "));
    let chores: BTreeSet<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    assert!(
        chores.contains("test") && chores.contains("release"),
        "{chores:?}"
    );
    chores
}

/// The arguments of each call of a chore in the text of a step.
fn calls(run: &str) -> Vec<Vec<String>> {
    let run = run.replace("\"$(date -u +%F)\"", "2026-12-01");
    let calls = run.split("cargo xtask ").skip(1).map(|rest| {
        let line = rest.lines().next().unwrap_or_default();
        let words = line.split_whitespace();
        words
            .take_while(|word| ![">", ">>", "|", "||", "&&"].contains(word))
            .map(str::to_owned)
            .collect()
    });
    calls.collect()
}

#[test]
fn the_workflows_call_only_chores_that_exist() {
    let (chores, mut checked, mut releases) = (chores(), 0, 0);
    each_step(&mut |file, job, step| {
        let run = step["run"].as_str().unwrap_or_default();
        let targets: Vec<&str> = match job["strategy"]["matrix"]["include"].as_vec() {
            Some(rows) => rows
                .iter()
                .filter_map(|row| row["target"].as_str())
                .collect(),
            None => vec![""],
        };
        for target in targets {
            for call in calls(&run.replace("${{ matrix.target }}", target)) {
                let chore = call.first().unwrap().as_str();
                assert!(chores.contains(chore), "{file}: cargo xtask {chore}");
                checked += 1;
                if chore == "release" {
                    let read = request::read(&call[1..]);
                    assert!(read.is_ok(), "{file}: {call:?}: {read:?}");
                    releases += 1;
                }
            }
        }
    });
    assert!(
        checked > 15 && releases >= 10,
        "{checked} calls were found, {releases} of them for a release"
    );
}

#[test]
fn each_target_of_a_release_has_a_job_and_its_files_are_published() {
    let (_, workflow) = workflows()
        .into_iter()
        .find(|(file, _)| file == "release.yml")
        .unwrap();
    let mut built = Vec::new();
    let mut wheels = Vec::new();
    for (name, job) in jobs(&workflow) {
        let rows = job["strategy"]["matrix"]["include"].as_vec();
        let targets: Vec<&str> = match (rows, name) {
            (Some(rows), _) => rows
                .iter()
                .filter_map(|row| row["target"].as_str())
                .collect(),
            (None, "macos") => vec!["aarch64-apple-darwin"],
            (None, _) => continue,
        };
        let steps = format!("{:?}", job["steps"]);
        assert!(
            steps.contains("target/dist/windlass-v*.tar.gz"),
            "{name} keeps no archive"
        );
        let has_wheel = steps.contains("--only program,wheel");
        assert_eq!(steps.contains("target/dist/*.whl"), has_wheel, "{name}");
        if has_wheel {
            wheels.extend(&targets);
        }
        built.extend(targets);
    }
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.join(" ")
    };
    let of_release = |is_wanted: fn(&targets::Target) -> bool| {
        sorted(
            targets::TARGETS
                .iter()
                .filter(|t| is_wanted(t))
                .map(|t| t.triple)
                .collect(),
        )
    };
    assert_eq!(sorted(built), of_release(|_| true));
    assert_eq!(sorted(wheels), of_release(|target| target.has_wheel));
    let publish = &workflow["jobs"]["publish"];
    let mut others: Vec<&str> = jobs(&workflow).iter().map(|(name, _)| *name).collect();
    others.retain(|name| *name != "publish");
    assert_eq!(sorted(texts(&publish["needs"])), sorted(others.clone()));
    // All but that of macOS, which is not rehearsed, and the plan, which says `due`.
    let condition = publish["if"].as_str().unwrap();
    for job in others.iter().filter(|job| !["plan", "macos"].contains(job)) {
        assert!(
            condition.contains(&format!("needs.{job}.result == 'success'")),
            "{job}"
        );
    }
    assert!(
        condition.contains("needs.plan.outputs.due == 'true'"),
        "{condition}"
    );
    assert!(
        condition.contains("github.event_name == 'push'"),
        "{condition}"
    );
}

/// The tag says that every crate is published: the last one makes it, and no other does.
#[test]
fn the_last_crate_that_is_published_makes_the_tag() {
    let config = read("release-plz.toml");
    let last = PUBLISHED.last().unwrap();
    let package = config.split_once("[[package]]").unwrap().1;
    assert!(
        package.contains(&format!(
            "name = \"{last}\"\ngit_tag_enable = true\ngit_tag_name = \"v{{{{ version }}}}\""
        )),
        "{package}"
    );
    assert_eq!(config.matches("git_tag_enable = true").count(), 1);
    assert_eq!(config.matches("git_tag_enable = false").count(), 1);
}

#[test]
fn the_image_has_files_that_the_archive_has() {
    let text = read("deploy/image/Containerfile");
    let copied: Vec<&str> = text
        .split("${TARGETPLATFORM}/")
        .skip(1)
        .filter_map(|rest| rest.split([' ', '\n']).next())
        .collect();
    assert!(copied.contains(&"windlass"), "{copied:?}");
    let archived = archive::expected("a");
    for file in copied {
        assert!(
            archived.contains(&format!("a/{file}")),
            "{file}: {archived:?}"
        );
    }
    let workflow = read(".github/workflows/release.yml");
    assert!(workflow.contains("file: deploy/image/Containerfile"));
}

#[test]
fn the_forms_ask_once_for_each_thing_and_name_commands_that_exist() {
    let commands = read("docs/reference/cli.md");
    for form in ["bug", "feature"] {
        let file = root().join(format!(".github/ISSUE_TEMPLATE/{form}.yml"));
        let (form, text) = (parsed(&file), fs::read_to_string(&file).unwrap());
        let mut ids = BTreeSet::new();
        for element in form["body"].as_vec().unwrap() {
            let (kind, attributes) = (element["type"].as_str().unwrap(), &element["attributes"]);
            if kind == "markdown" {
                assert!(attributes["value"].as_str().is_some());
                continue;
            }
            assert!(["input", "textarea", "dropdown"].contains(&kind), "{kind}");
            assert!(attributes["label"].as_str().is_some(), "{element:?}");
            assert!(
                kind != "dropdown" || texts(&attributes["options"]).len() > 1,
                "{element:?}"
            );
            let id = element["id"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is asked twice");
        }
        for command in text.split("`windlass ").skip(1) {
            let command = command.split([' ', '`']).next().unwrap();
            let exists =
                command.starts_with("--") || commands.contains(&format!("## `windlass {command}`"));
            assert!(exists, "{}: windlass {command}", file.display());
        }
        if file.ends_with("bug.yml") {
            assert!(
                ["version", "store", "doctor"]
                    .iter()
                    .all(|id| ids.contains(id)),
                "{ids:?}"
            );
        }
    }
    let config = parsed(&root().join(".github/ISSUE_TEMPLATE/config.yml"));
    assert!(
        config["contact_links"][0]["url"]
            .as_str()
            .unwrap()
            .ends_with("/security/advisories/new")
    );
}

#[test]
fn the_dependency_bot_looks_into_folders_that_exist_once_a_week() {
    let config = parsed(&root().join(".github/dependabot.yml"));
    assert_eq!(config["version"].as_i64(), Some(2));
    let mut kinds = Vec::new();
    for update in config["updates"].as_vec().unwrap() {
        kinds.push(update["package-ecosystem"].as_str().unwrap());
        let folders = [texts(&update["directory"]), texts(&update["directories"])].concat();
        assert!(!folders.is_empty());
        for folder in folders {
            assert!(
                root().join(folder.trim_start_matches('/')).is_dir(),
                "{folder}"
            );
        }
        assert_eq!(update["schedule"]["interval"].as_str(), Some("weekly"));
        assert!(update["groups"].as_hash().is_some());
    }
    assert_eq!(kinds, ["cargo", "pip", "github-actions"]);
}
