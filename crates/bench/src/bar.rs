//! Bars: figures that must not be exceeded.

use std::process::ExitCode;

/// A figure and the most it may be.
#[derive(Debug)]
pub struct Bar {
    /// What is measured.
    pub name: &'static str,
    /// The figure.
    pub figure: f64,
    /// The most it may be.
    pub most: f64,
    /// The unit of both, `x` for ratios.
    pub unit: &'static str,
}

impl Bar {
    fn holds(&self) -> bool {
        self.figure <= self.most
    }
}

/// Prints which bars hold, and fails if one does not.
pub fn report(bars: &[Bar]) -> ExitCode {
    println!();
    for bar in bars {
        let Bar {
            name,
            figure,
            most,
            unit,
        } = bar;
        let verdict = if bar.holds() { "PASS" } else { "FAIL" };
        println!("{verdict}  {name}: {figure:.3} {unit}, at most {most} {unit}");
    }
    if bars.iter().all(Bar::holds) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
