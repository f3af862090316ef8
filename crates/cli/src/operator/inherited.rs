//! Flags that an installation brings along from the original Kollect.
//!
//! All of them are accepted, so that a manifest or chart values written for the original start this
//! operator too. Those that mean something here are options like all others; the table below holds
//! the rest, each with the reason why it has no effect. Whoever gives one is told so once, at the
//! start.

use clap::{Arg, ArgAction, ArgMatches, Command, Error, builder::ValueParser};

/// A flag without effect.
#[derive(Debug)]
struct Inherited {
    name: &'static str,
    value: Value,
    /// Why, as a sentence that goes on after "--flag has no effect: ".
    why: &'static str,
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// A switch; off is what there is, so only on is worth a word.
    Switch,
    Number,
    Duration,
    Text,
}

const fn flag(name: &'static str, value: Value, why: &'static str) -> Inherited {
    Inherited { name, value, why }
}

const ONE_LOOP: &str = "one control loop looks at all objects at once, so there are no workers to \
                        count; writes are limited to a few at a time";
const NO_QUEUE: &str = "objects are evaluated as they arrive on their watch and never queue; a \
                        watch that cannot follow is slowed down by TCP";
const NO_HTTP: &str = "this version serves no inventory over HTTP; read the sinks";
const NO_PPROF: &str = "there is no profiling listener; use perf or a debugger";
const LOG_LINES: &str = "log lines have RFC 3339 times and no stack traces";

const TABLE: &[Inherited] = &[
    flag("max-concurrent-reconciles-target", Value::Number, ONE_LOOP),
    flag(
        "max-concurrent-reconciles-inventory",
        Value::Number,
        ONE_LOOP,
    ),
    flag(
        "max-concurrent-reconciles-cluster-target",
        Value::Number,
        ONE_LOOP,
    ),
    flag(
        "max-concurrent-reconciles-cluster-inventory",
        Value::Number,
        ONE_LOOP,
    ),
    flag(
        "reconcile-rate-limit",
        Value::Duration,
        "what failed is tried again with a back-off of its own, from one second to a few minutes",
    ),
    flag("collect-dispatch-workers", Value::Number, NO_QUEUE),
    flag("collect-dispatch-queue-size", Value::Number, NO_QUEUE),
    flag("collect-dispatch-enqueue-wait", Value::Duration, NO_QUEUE),
    flag(
        "informer-resync-period",
        Value::Duration,
        "a watch that loses its place lists again; nothing is gained by listing at intervals",
    ),
    flag(
        "enable-http2",
        Value::Switch,
        "the listeners speak HTTP/1.1 only",
    ),
    flag("inventory-http-enabled", Value::Switch, NO_HTTP),
    flag("inventory-http-port", Value::Number, NO_HTTP),
    flag("inventory-auth-mode", Value::Text, NO_HTTP),
    flag("inventory-auth-cache-ttl", Value::Duration, NO_HTTP),
    flag("enable-pprof", Value::Switch, NO_PPROF),
    flag("pprof-bind-address", Value::Text, NO_PPROF),
    flag("zap-stacktrace-level", Value::Text, LOG_LINES),
    flag("zap-time-encoding", Value::Text, LOG_LINES),
];

/// The flags of the table that were given.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<&'static Inherited>);

impl Given {
    /// What whoever gave them should know.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|flag| format!("--{} has no effect: {}", flag.name, flag.why))
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = TABLE.iter().filter(|flag| match flag.value {
            Value::Switch => matches.get_one::<bool>(flag.name) == Some(&true),
            _ => matches.contains_id(flag.name),
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        TABLE.iter().fold(command, |command, flag| {
            let arg = Arg::new(flag.name)
                .long(flag.name)
                .action(ArgAction::Set)
                .hide_short_help(true)
                .help_heading("Accepted for manifests of the original Kollect, without effect")
                .help(flag.why);
            command.arg(match flag.value {
                Value::Switch => arg.go_switch().value_parser(switch),
                Value::Number => arg
                    .value_name("NUMBER")
                    .allow_negative_numbers(true)
                    .value_parser(clap::value_parser!(i64)),
                Value::Duration => arg
                    .value_name("DURATION")
                    .value_parser(ValueParser::new(super::duration)),
                Value::Text => arg.value_name("TEXT"),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Flags that are on or off, as Go has them: `--flag`, `--flag=true`, `--flag=false`.
pub(super) trait GoSwitch {
    /// May be given without a value, and never takes the next argument for one.
    fn go_switch(self) -> Self;
}

impl GoSwitch for Arg {
    fn go_switch(self) -> Self {
        self.value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    }
}

/// A switch as Go spells it.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Flags may have one dash, as Go allows: `-leader-elect` is `--leader-elect`. Everything from the
/// name of the subcommand on.
pub(crate) fn with_two_dashes(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut operator = false;
    let with_two = arguments.enumerate().map(|(at, argument)| {
        operator |= at == 1 && argument == "operator";
        let name = argument.strip_prefix('-').unwrap_or_default();
        let long = name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic());
        if operator && long {
            format!("-{argument}")
        } else {
            argument
        }
    });
    with_two.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::arguments::{Arguments, Command as Chosen};

    /// Every flag of the original operator, with a value that its manifests use.
    const ORIGINAL: &str = "
        kubeconfig=/tmp/config leader-elect=true leader-elect-lease-duration=60s
        leader-elect-renew-deadline=40s leader-elect-retry-period=5s
        health-probe-bind-address=:8081 metrics-bind-address=:8443 metrics-secure=true
        metrics-cert-path=/certs metrics-cert-name=tls.crt metrics-cert-key=tls.key
        validating-webhooks-enabled=true webhook-cert-path=/certs webhook-cert-name=tls.crt
        webhook-cert-key=tls.key enable-http2=false tenant-mode=false watch-namespaces=a,b
        default-included-namespaces=a default-excluded-namespaces=b scrub-keys=pin
        allow-private-sinks=true max-export-bytes=1572864 max-concurrent-reconciles-target=5
        max-concurrent-reconciles-inventory=3 max-concurrent-reconciles-cluster-target=2
        max-concurrent-reconciles-cluster-inventory=2 reconcile-rate-limit=0s
        target-count-resync=60s collect-dispatch-workers=4 collect-dispatch-queue-size=512
        collect-dispatch-enqueue-wait=25ms informer-resync-period=12h
        collect-metrics-sample-interval=30s inventory-http-enabled=true inventory-http-port=8082
        inventory-auth-mode=kubernetes inventory-auth-cache-ttl=30s enable-pprof=true
        pprof-bind-address=:6060 zap-devel=true zap-encoder=json zap-log-level=debug
        zap-stacktrace-level=error zap-time-encoding=iso8601";

    fn given(arguments: &[&str]) -> Result<super::super::Options, Error> {
        let all = ["kollect", "operator"].iter().chain(arguments);
        let all = with_two_dashes(all.map(|text| (*text).to_owned()));
        match Arguments::try_parse_from(all)?.command {
            Some(Chosen::Operator(options)) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn c13_every_flag_of_the_original_is_accepted_and_honoured_or_explained() {
        let all: Vec<String> = ORIGINAL
            .split_whitespace()
            .map(|flag| format!("--{flag}"))
            .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let options = given(&all).expect("all at once");
        let told: Vec<String> = options.inherited.warnings().collect();
        for flag in TABLE {
            let text = format!("--{} has no effect: {}", flag.name, flag.why);
            // What is switched off is off, which needs no word.
            assert_eq!(told.contains(&text), flag.name != "enable-http2", "{text}");
        }
        for flag in &all {
            given(&[flag]).unwrap_or_else(|error| panic!("{error}"));
            given(&[&flag[1..]]).unwrap_or_else(|error| panic!("one dash: {error}"));
            let (name, value) = flag.split_once('=').expect("a value");
            if !matches!(value, "true" | "false") {
                given(&[name, value]).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        for text in [
            "--enable-pprof=maybe",
            "--collect-dispatch-workers=many",
            "--no-such-flag",
        ] {
            assert!(given(&[text]).is_err(), "{text}");
        }
        assert_eq!(given(&[]).expect("nothing").inherited.warnings().count(), 0);
    }

    #[test]
    fn c13_what_the_table_explains_is_a_flag_of_the_original() {
        let original: BTreeSet<&str> = ORIGINAL
            .split_whitespace()
            .filter_map(|flag| Some(flag.split_once('=')?.0))
            .collect();
        for flag in TABLE {
            assert!(original.contains(flag.name), "{}", flag.name);
        }
        Arguments::command().debug_assert();
    }

    #[test]
    fn b13_the_size_of_documents_reaches_exports_and_rules() {
        // Given, what exports split at, what specs may ask for at most.
        for (given_size, exports, rules) in [
            (None, None, 1_572_864),
            (Some("--max-export-bytes=9000"), Some(9_000), 9_000),
            (Some("--max-export-bytes=0"), None, 1_572_864),
            (Some("--max-export-bytes=-1"), None, 1_572_864),
        ] {
            let options = given(given_size.as_slice()).expect("options");
            let settings = super::super::settings(&options).expect("settings");
            let got = (
                settings.inventories.max_export_bytes,
                settings.rules.max_export_bytes,
            );
            assert_eq!(got, (exports, rules), "{given_size:?}");
        }
    }

    #[test]
    fn a22_t13_tenant_mode_without_namespaces_is_refused() {
        let options = given(&["--tenant-mode"]).expect("options");
        let error = super::super::settings(&options)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("--watch-namespaces"), "{error}");
        for good in [
            &["--tenant-mode", "--watch-namespaces=a"][..],
            &["--tenant-mode=false"],
            &[],
        ] {
            let options = given(good).expect("options");
            super::super::settings(&options).expect("accepted");
        }
        let options = given(&["--tenant-mode", "--watch-namespaces= , "]).expect("options");
        super::super::settings(&options).expect_err("a list of nothing is none");
    }

    #[test]
    fn a_tenants_operator_lives_in_its_first_namespace_and_is_told_what_a_role_cannot_grant() {
        for (flags, home, warned) in [
            (&[][..], "kollect-system", false),
            (&["--watch-namespaces=b,a"], "kollect-system", false),
            (&["--tenant-mode", "--watch-namespaces=b,a"], "b", false),
            (
                &[
                    "--tenant-mode",
                    "--watch-namespaces=a",
                    "--metrics-bind-address=:8443",
                ],
                "a",
                true,
            ),
            (
                &[
                    "--tenant-mode",
                    "--watch-namespaces=a",
                    "--metrics-bind-address=:8443",
                    "--metrics-secure=false",
                ],
                "a",
                false,
            ),
            (&["--metrics-bind-address=:8443"], "kollect-system", false),
        ] {
            let options = given(flags).expect("options");
            assert_eq!(super::super::home(&options), home, "{flags:?}");
            let said = super::super::beyond_a_role(&options);
            assert_eq!(said.is_some(), warned, "{flags:?}");
        }
    }
}
