//! The list of the cases of state stores, as a macro that makes a test of each.

/// Makes one `#[tokio::test]` per case of the suite for state stores, in a module of this name. The
/// expression makes a [`StateHarness`](crate::testing::conformance::StateHarness) and is evaluated
/// once per case. `paused` and `cannot` are those of [`conformance_tests!`](crate::conformance_tests).
#[macro_export]
macro_rules! state_store_conformance_tests {
    ($name:ident, $harness:expr $(,)?) => {
        $crate::state_store_conformance_tests! { @list $name, $harness, (), {} }
    };
    ($name:ident, $harness:expr, paused $(,)?) => {
        $crate::state_store_conformance_tests! { @list $name, $harness, (start_paused = true), {} }
    };
    ($name:ident, $harness:expr, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::state_store_conformance_tests! { @list $name, $harness, (), { $($what $why)* } }
    };
    ($name:ident, $harness:expr, paused, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::state_store_conformance_tests! { @list $name, $harness, (start_paused = true), { $($what $why)* } }
    };
    (@list $name:ident, $harness:expr, $time:tt, $cannot:tt) => {
        $crate::__conformance_cases! { $name, $harness, $time, $cannot, assert_states_declared,
            states {
                a_state_comes_back,
                a_smaller_fence_is_refused,
                a_smaller_version_is_refused,
                a_newer_state_is_stored,
                the_incarnation_does_not_matter,
                the_same_write_again_succeeds,
                another_write_of_the_same_version_is_stored,
                items_are_independent,
                names_do_not_touch,
                a_removed_state_is_gone,
                only_the_state_that_was_seen_is_removed,
                a_removal_does_not_take_a_write_along,
                writers_at_once_leave_the_greatest,
                large_states_are_stored_or_refused,
                states_are_durable needs Reopen,
                an_unreadable_state_is_left_as_it_is needs CorruptState,
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    /// Returns the cases that the lists name, as `topic::case`.
    fn listed() -> BTreeSet<String> {
        let mut topic = "";
        let mut cases = BTreeSet::new();
        let lists = [
            include_str!("list_clients.rs"),
            include_str!("list_nodes.rs"),
            include_str!("list_data.rs"),
            include_str!("list_states.rs"),
        ];
        for line in lists.iter().flat_map(|list| list.lines()).map(str::trim) {
            if let Some(name) = line.strip_suffix(" {") {
                topic = name;
            } else if let Some(case) = line.strip_suffix(',') {
                // A case may name the capability that it needs: `case needs Capability`.
                let case = case.split(' ').next().unwrap_or_default();
                cases.insert(format!("{topic}::{case}"));
            }
        }
        cases
    }

    /// Files with public functions that are not cases.
    const NO_TOPICS: [&str; 1] = ["declared"];

    /// A case that no list names is not run on any store.
    #[test]
    fn every_case_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testing/conformance");
        let (listed, mut written) = (listed(), 0);
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let topic = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if NO_TOPICS.contains(&&*topic) {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let cases = text.split("\npub async fn ").skip(1);
            for case in cases.filter_map(|text| text.split('(').next()) {
                let case = format!("{topic}::{case}");
                assert!(listed.contains(&case), "{case} is in no list");
                written += 1;
            }
        }
        assert!(written > 100, "{written} cases were found");
    }
}
