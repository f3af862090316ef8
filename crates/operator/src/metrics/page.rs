//! Samples as OpenMetrics text.

use std::{borrow::Cow, fmt};

use kollect_api::visible::visible;
use kollect_collect::engine::Durations;
use prometheus_client::{
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::catalogue::{Kind, Metric};

type Labels = Vec<(Cow<'static, str>, String)>;

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub(super) struct Page(Vec<Family>);

/// One metric with its samples. Every family appears exactly once on a page.
#[derive(Debug)]
pub(super) struct Family {
    metric: &'static Metric,
    samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
enum Value {
    Count(u64),
    Number(f64),
    Durations { sum: f64, buckets: Vec<(f64, u64)> },
}

impl Page {
    /// Begins a family. Without samples only its description is shown.
    pub(super) fn family(&mut self, metric: &'static Metric) -> &mut Family {
        self.0.push(Family {
            metric,
            samples: Vec::new(),
        });
        self.0.last_mut().expect("it was pushed just now")
    }

    /// Writes everything.
    pub(super) fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { metric, samples } in &self.0 {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(metric.family(), metric.help, None, kind)?;
            for (labels, value) in samples {
                if labels.is_empty() {
                    value.encode(metric.kind, &mut family)?;
                } else {
                    value.encode(metric.kind, &mut family.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Family {
    /// Adds a sample of a counter.
    pub(super) fn counter(&mut self, labels: &[&str], count: u64) {
        self.push(labels, Value::Count(count));
    }

    /// Adds a sample of a gauge.
    pub(super) fn gauge(&mut self, labels: &[&str], number: u64) {
        self.push(labels, Value::Count(number));
    }

    /// Adds a sample of a gauge that has labels of its own.
    pub(super) fn sample(&mut self, labels: Labels, number: f64) {
        self.samples.push((labels, Value::Number(number)));
    }

    /// Adds a sample of a counter that has labels of its own.
    pub(super) fn count(&mut self, labels: Labels, count: u64) {
        self.samples.push((labels, Value::Count(count)));
    }

    /// Adds a sample of a histogram.
    pub(super) fn histogram<const N: usize>(&mut self, labels: &[&str], durations: &Durations<N>) {
        let value = Value::Durations {
            sum: durations.sum().as_secs_f64(),
            buckets: durations.buckets(),
        };
        self.push(labels, value);
    }

    fn push(&mut self, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), self.metric.labels.len());
        let names = self.metric.labels.iter().map(|name| Cow::Borrowed(*name));
        // References are what their author wrote, and need not be names.
        let values = labels.iter().map(|value| visible(value).into_owned());
        self.samples.push((names.zip(values).collect(), value));
    }
}

impl Value {
    fn encode(&self, kind: Kind, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Value::Count(count), Kind::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(count, None)
            }
            (Value::Count(number), _) => encoder.encode_gauge(number),
            (Value::Number(number), _) => encoder.encode_gauge(number),
            (Value::Durations { sum, buckets }, _) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}
