//! The macros that make a test of each listed case.

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    (
        $name:ident, $harness:expr, $time:tt, $cannot:tt, $declared:ident,
        $($topic:ident { $($case:ident $(needs $($need:ident)+)?,)* })*
    ) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            mod capabilities {
                #[allow(unused_imports)]
                use super::*;

                $crate::__conformance_declared! { $harness, $time, $declared, $cannot }
            }

            $(
                mod $topic {
                    #[allow(unused_imports)]
                    use super::*;

                    $(
                        $crate::__conformance_case! {
                            [$($($need)+)?] $cannot $cannot
                            $time $harness, $topic::$case
                        }
                    )*
                }
            )*
        }
    };
}

/// Makes the test of the capabilities that a store declares as lacking.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_declared {
    ($harness:expr, $time:tt, $declared:ident, { $($what:ident $why:literal)* }) => {
        #[tokio::test $time]
        async fn are_as_declared() {
            use $crate::testing::conformance::{Capability, $declared};
            let declared: &[(Capability, &str)] = &[$((Capability::$what, $why)),*];
            $declared(&$harness, declared).await;
        }
    };
}

/// Makes the test of one case. Takes the needs of the case, everything that the store lacks, and the
/// part of this list that is not compared yet. The first need in the list makes the test an ignored
/// one.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_case {
    ([Reopen $($n:ident)*] $all:tt { Reopen $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Clock $($n:ident)*] $all:tt { Clock $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([CorruptState $($n:ident)*] $all:tt { CorruptState $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([RepairState $($n:ident)*] $all:tt { RepairState $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([CorruptEnvelope $($n:ident)*] $all:tt { CorruptEnvelope $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([CorruptLog $($n:ident)*] $all:tt { CorruptLog $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Effects $($n:ident)*] $all:tt { Effects $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Transfer $($n:ident)*] $all:tt { Transfer $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Examine $($n:ident)*] $all:tt { Examine $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Limits $($n:ident)*] $all:tt { Limits $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([Workers $($n:ident)*] $all:tt { Workers $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { @test [#[ignore = $why]] $($test)* }
    };
    ([$n:ident $($ns:ident)*] $all:tt { $w:ident $why:literal $($r:tt)* } $($test:tt)*) => {
        $crate::__conformance_case! { [$n $($ns)*] $all { $($r)* } $($test)* }
    };
    ([$n:ident $($ns:ident)*] $all:tt {} $($test:tt)*) => {
        $crate::__conformance_case! { [$($ns)*] $all $all $($test)* }
    };
    ([] $all:tt $rest:tt $($test:tt)*) => {
        $crate::__conformance_case! { @test [] $($test)* }
    };
    (@test [$($ignore:tt)*] $time:tt $harness:expr, $topic:ident::$case:ident) => {
        #[tokio::test $time]
        $($ignore)*
        async fn $case() {
            $crate::testing::conformance::$topic::$case(&$harness).await;
        }
    };
}
