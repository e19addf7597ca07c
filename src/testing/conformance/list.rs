//! The macro that makes a test of each case of stores. The cases are listed by topic in `list_clients`, `list_nodes` and
//! `list_data`.

/// Makes one `#[tokio::test]` per case of the suite for stores, in a module of this name. The
/// expression makes a [`Harness`](crate::testing::conformance::Harness) and is evaluated once per
/// case. The expression sees the items in scope at the call of the macro.
///
/// With `paused`, the cases run in tokio's paused time (tokio's feature `test-util`). The store must
/// then use a clock like [`TokioClock`](crate::testing::TokioClock).
///
/// `cannot` declares each [`Capability`](crate::testing::conformance::Capability) that the store
/// lacks, with the reason. The cases that need the capability become ignored tests with that reason.
/// They fail when `--ignored` runs them, and without the declaration. The test
/// `capabilities::are_as_declared` fails when the store has a capability that is declared as lacking.
///
/// ```
/// use windlass::{async_trait, store::Store, testing::conformance::Harness};
///
/// struct Volatile;
///
/// #[async_trait]
/// impl Harness for Volatile {
///     async fn store(&self) -> Store {
///         Store::open("memory:").await.expect("the store opens")
///     }
/// }
///
/// windlass::conformance_tests!(volatile, Volatile, cannot {
///     Reopen: "the data end with the process",
///     Clock: "the harness sets no clock",
///     CorruptState: "the harness damages nothing",
///     RepairState: "the harness damages nothing",
///     CorruptEnvelope: "the harness damages nothing",
///     CorruptLog: "the harness damages nothing",
///     Examine: "the store has no check of its own",
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $harness:expr $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (), {} }
    };
    ($name:ident, $harness:expr, paused $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (start_paused = true), {} }
    };
    ($name:ident, $harness:expr, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (), { $($what $why)* } }
    };
    ($name:ident, $harness:expr, paused, cannot { $($what:ident: $why:literal),* $(,)? } $(,)?) => {
        $crate::conformance_tests! { @list $name, $harness, (start_paused = true), { $($what $why)* } }
    };
    (@list $name:ident, $harness:expr, $time:tt, $cannot:tt) => {
        $crate::__conformance_of_clients! { $name, $harness, $time, $cannot, assert_declared, }
    };
}
