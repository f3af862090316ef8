//! What the operator tells whoever reads its log.

use std::io::{self, IsTerminal as _};

use clap::{ArgAction, Args};
use kollect_operator::keeper::panic_text;
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::FilterExt as _, fmt, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use super::{
    inherited::{GoSwitch as _, switch},
    repeats::Repeats,
};

/// Options of log lines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub(super) struct Logging {
    /// Log lines as JSON instead of text.
    #[arg(long)]
    log_json: bool,
    /// Form of log lines: json or console.
    #[arg(long, value_name = "FORM", value_parser = ["json", "console"])]
    zap_encoder: Option<String>,
    /// false: log lines as JSON, unless --zap-encoder says otherwise.
    #[arg(long, action = ArgAction::Set, value_parser = switch, go_switch())]
    zap_devel: Option<bool>,
    /// How much is logged: error, info, debug, or a number (1 is debug, 2 and more is everything).
    /// RUST_LOG says it in more detail.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    zap_log_level: Option<&'static str>,
}

/// A level as the original spells it.
fn level(text: &str) -> Result<&'static str, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" | "1" => Ok("debug"),
        "info" => Ok("info"),
        "error" | "panic" => Ok("error"),
        number if number.parse::<u8>().is_ok_and(|number| number > 1) => Ok("trace"),
        _ => Err("debug, info, error, panic or a number above zero".to_owned()),
    }
}

impl Logging {
    fn is_json(&self) -> bool {
        match self.zap_encoder.as_deref() {
            _ if self.log_json => true,
            Some(form) => form == "json",
            None => self.zap_devel == Some(false),
        }
    }

    /// Begins to write log lines to standard error: in colour only for people at a terminal.
    pub(super) fn start(&self) {
        let level = self.zap_log_level.unwrap_or("info");
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let lines = fmt::layer().with_ansi(colour).with_writer(io::stderr);
        let lines = if self.is_json() {
            lines.json().boxed()
        } else {
            lines.boxed()
        };
        let filter = filter.and(Repeats::default());
        tracing_subscriber::registry()
            .with(lines.with_filter(filter))
            .init();
        // One log, also for what went wrong in an unexpected way.
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let text = panic_text(panic.payload());
            tracing::error!(place, "panic: {text}");
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_chosen_in_three_ways() {
        let none = None;
        for (log_json, encoder, devel, json) in [
            (false, none, None, false),
            (true, none, None, true),
            (true, Some("console"), None, true),
            (false, Some("json"), Some(true), true),
            (false, Some("console"), Some(false), false),
            (false, none, Some(false), true),
            (false, none, Some(true), false),
        ] {
            let logging = Logging {
                log_json,
                zap_encoder: encoder.map(str::to_owned),
                zap_devel: devel,
                zap_log_level: None,
            };
            assert_eq!(logging.is_json(), json, "{logging:?}");
        }
        let levels = [
            "debug", "1", "info", "error", "panic", "2", "200", "0", "", "loud",
        ];
        let levels = levels.map(|text| level(text).ok());
        let expected = ["debug", "debug", "info", "error", "error", "trace", "trace"];
        assert_eq!(levels[..7], expected.map(Some));
        assert_eq!(levels[7..], [None; 3]);
    }
}
