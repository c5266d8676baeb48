//! Parquet, by the crate's low-level column writer: it needs no arrow.
//!
//! ```text
//!   fibers:   Format::encode ─▶ rows in a form of our own (below), as a block
//!   pool:     a chunk of blocks ─▶ row group: a small Parquet file in memory
//!   writer:   PAR1 │ row group │ row group │ … │ footer      its groups, with their offsets moved
//! ```
//!
//! So row groups are made at the same time, and an output that is cut behind one of them can be continued, if somebody
//! has kept what the footer says of those before: the journal does (`RowGroup::note`).
//!
//! A block is, with lengths and numbers in the machine's order: rows, metrics, the constant columns' texts, the metrics' names
//! if the layout is long, the times, the values row by row. Values have the digits that rrdtool prints, whoever has read them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use rrd_file::{Fetched, format_value};

use super::{Format, sources};
use crate::job::{Column, FileJob, Layout, Shape};

/// What a file begins and ends with.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// What all row groups have in common.
pub(super) struct Table {
    shape: Shape,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
}

/// A row group: what the footer will say of it.
pub(super) struct RowGroup(ParquetMetaData);

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

impl Table {
    /// # Errors
    /// Two columns have one name.
    pub(super) fn new(shape: Shape) -> Result<Table, String> {
        let names = sources::header(&shape);
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
        {
            return Err(format!(
                "two columns are called `{}`, which Parquet does not allow",
                twice.1
            ));
        }
        let values = names.len() - shape.columns.len();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let mut fields = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let path = ColumnPath::from(*name);
            let is_time = shape.columns.get(place) == Some(&Column::Time);
            let is_value = place >= names.len() - values
                && !(shape.layout == Layout::Long && *name == "metric");
            let (physical, logical) = match (is_time, is_value) {
                (true, _) => {
                    properties = properties
                        .set_column_dictionary_enabled(path.clone(), false)
                        .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
                    (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS)))
                }
                (_, true) => {
                    properties = properties.set_column_dictionary_enabled(path, false);
                    (Physical::DOUBLE, None)
                }
                _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let repetition = if is_value { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            let field = Type::primitive_type_builder(name, physical)
                .with_logical_type(logical)
                .with_repetition(repetition);
            fields.push(Arc::new(field.build().map_err(|error| error.to_string())?));
        }
        let schema = Type::group_type_builder("rrd").with_fields(fields).build();
        let schema = Arc::new(schema.map_err(|error| error.to_string())?);
        Ok(Table { shape, schema, properties: Arc::new(properties.build()) })
    }

    /// Makes a row group of blocks. Takes long: not for a fiber's worker.
    pub(super) fn row_group(&self, blocks: &[u8]) -> io::Result<(Vec<u8>, RowGroup)> {
        let parts: Vec<Part<'_>> = Parts { bytes: blocks, shape: &self.shape }.collect();
        let properties = Arc::clone(&self.properties);
        let mut bytes = Vec::new();
        let metadata = {
            let schema = Arc::clone(&self.schema);
            let mut file =
                SerializedFileWriter::new(&mut bytes, schema, properties).map_err(wrong)?;
            let mut group = file.next_row_group().map_err(wrong)?;
            self.columns(&mut group, &parts).map_err(wrong)?;
            group.close().map_err(wrong)?;
            file.close().map_err(wrong)?
        };
        let columns = metadata.row_group(0).columns().iter();
        let end = columns.map(|column| column.byte_range()).map(|(start, length)| start + length);
        bytes.truncate(end.max().unwrap_or(MAGIC.len() as u64) as usize);
        bytes.drain(..MAGIC.len());
        Ok((bytes, RowGroup(metadata)))
    }

    /// Writes the columns one after the other.
    fn columns<W: io::Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        parts: &[Part<'_>],
    ) -> parquet::errors::Result<()> {
        let long = self.shape.layout == Layout::Long;
        // Each row of a part is one of the output, or as many as it has metrics.
        let times = |part: &Part<'_>| if long { part.metrics } else { 1 };
        let mut constant = 0;
        for column in &self.shape.columns {
            let mut writer = group.next_column()?.expect("as the schema says");
            for part in parts {
                if *column == Column::Time {
                    let each =
                        part.times().flat_map(|time| std::iter::repeat_n(time * 1000, times(part)));
                    let values: Vec<i64> = each.collect();
                    writer.typed::<Int64Type>().write_batch(&values, None, None)?;
                } else {
                    let text = String::from_utf8_lossy(part.texts[constant]).into_owned();
                    let values = vec![ByteArray::from(text.into_bytes()); part.rows * times(part)];
                    writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
            }
            constant += usize::from(*column != Column::Time);
            writer.close()?;
        }
        if long {
            let mut writer = group.next_column()?.expect("as the schema says");
            for part in parts {
                let names =
                    part.texts[constant..].iter().map(|name| ByteArray::from(name.to_vec()));
                let names: Vec<ByteArray> = names.collect();
                let values: Vec<ByteArray> =
                    names.iter().cycle().take(part.rows * part.metrics).cloned().collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            writer.close()?;
        }
        let value_columns = if long { 1 } else { self.shape.metrics.len() };
        for place in 0..value_columns {
            let mut writer = group.next_column()?.expect("as the schema says");
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            for part in parts {
                values.clear();
                levels.clear();
                for value in part.values().skip(place).step_by(value_columns) {
                    levels.push(i16::from(!value.is_nan()));
                    if !value.is_nan() {
                        values.push(value);
                    }
                }
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            writer.close()?;
        }
        Ok(())
    }

    /// What a file ends with: where its row groups are.
    pub(super) fn footer(&self, groups: Vec<RowGroup>) -> io::Result<Vec<u8>> {
        let mut groups = groups.into_iter();
        let Some(first) = groups.next() else {
            // A file without rows, without its beginning.
            let properties = Arc::clone(&self.properties);
            let file = SerializedFileWriter::new(Vec::new(), Arc::clone(&self.schema), properties);
            let mut bytes = file.and_then(SerializedFileWriter::into_inner).map_err(wrong)?;
            bytes.drain(..MAGIC.len());
            return Ok(bytes);
        };
        let rows = |group: &RowGroupMetaData| group.num_rows();
        let mut all = first.0.row_groups().to_vec();
        let file = first.0.file_metadata();
        all.extend(groups.flat_map(|group| group.0.row_groups().to_vec()));
        let whole = parquet::file::metadata::FileMetaData::new(
            file.version(),
            all.iter().map(rows).sum(),
            file.created_by().map(str::to_owned),
            file.key_value_metadata().cloned(),
            file.schema_descr_ptr(),
            file.column_orders().cloned(),
        );
        encode(&ParquetMetaData::new(whole, all))
    }
}

/// As a footer: the metadata, its length and the magic.
fn encode(metadata: &ParquetMetaData) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let out = TrackedWrite::new(&mut bytes);
    ParquetMetaDataWriter::new_with_tracked(out, metadata).finish().map_err(wrong)?;
    Ok(bytes)
}

impl RowGroup {
    /// It stands at `at` in the file, as its `ordinal`th group.
    pub(super) fn moved(self, at: u64, ordinal: usize) -> io::Result<RowGroup> {
        let by = at as i64 - MAGIC.len() as i64;
        let group = self.0.row_group(0).clone();
        let ordinal = i16::try_from(ordinal).map_err(|_| {
            io::Error::other("Parquet knows no more than 32,767 row groups in a file")
        })?;
        let mut columns = Vec::new();
        for column in group.columns() {
            let dictionary = column.dictionary_page_offset().map(|offset| offset + by);
            let data = column.data_page_offset() + by;
            let column = column.clone().into_builder();
            let column = column.set_data_page_offset(data).set_dictionary_page_offset(dictionary);
            columns.push(column.build().map_err(wrong)?);
        }
        let offset = group.file_offset().unwrap_or(MAGIC.len() as i64) + by;
        let group = group.into_builder().set_column_metadata(columns);
        let group =
            group.set_file_offset(offset).set_ordinal(ordinal.into()).build().map_err(wrong)?;
        Ok(RowGroup(ParquetMetaData::new(self.0.file_metadata().clone(), vec![group])))
    }

    /// For the journal.
    pub(super) fn note(&self) -> io::Result<Vec<u8>> {
        let mut bytes = encode(&self.0)?;
        // Its length and the magic say nothing here.
        bytes.truncate(bytes.len() - 8);
        Ok(bytes)
    }

    /// From the journal.
    pub(super) fn from_note(note: &[u8]) -> io::Result<RowGroup> {
        ParquetMetaDataReader::decode_metadata(&Bytes::copy_from_slice(note))
            .map(RowGroup)
            .map_err(wrong)
    }
}

fn put(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_ne_bytes());
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    put(text.len(), out);
    out.extend_from_slice(text);
}

impl Format for Table {
    fn encode(&self, job: &FileJob, fetched: &Fetched, out: &mut Vec<u8>) -> Result<u64, String> {
        let chosen = sources::chosen(&self.shape, fetched)?;
        put(fetched.len(), out);
        put(chosen.len(), out);
        for column in self.shape.columns.iter().filter(|column| **column != Column::Time) {
            put_text(sources::constant(column, job), out);
        }
        let long = self.shape.layout == Layout::Long;
        if long {
            for name in sources::names(&self.shape, job, fetched, &chosen) {
                put_text(name.as_bytes(), out);
            }
        }
        for (time, _) in fetched.rows() {
            out.extend_from_slice(&time.to_ne_bytes());
        }
        let mut text = Vec::new();
        for (_, values) in fetched.rows() {
            for source in &chosen {
                text.clear();
                format_value(values[*source], &mut text);
                let value = crate::reader::rrdtool::parse_value(&text).unwrap_or(f64::NAN);
                out.extend_from_slice(&value.to_ne_bytes());
            }
        }
        Ok((fetched.len() * if long { chosen.len() } else { 1 }) as u64)
    }
}

/// A block, as it was encoded.
struct Part<'a> {
    rows: usize,
    metrics: usize,
    texts: Vec<&'a [u8]>,
    times: &'a [u8],
    values: &'a [u8],
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    bytes.as_chunks::<8>().0.iter().copied()
}

impl Part<'_> {
    fn times(&self) -> impl Iterator<Item = i64> {
        words(self.times).map(i64::from_ne_bytes)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        words(self.values).map(f64::from_ne_bytes)
    }
}

struct Parts<'a> {
    bytes: &'a [u8],
    shape: &'a Shape,
}

impl<'a> Parts<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        taken
    }

    fn number(&mut self) -> usize {
        usize::from_ne_bytes(*self.take(size_of::<usize>()).as_array().expect("as many"))
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        if self.bytes.is_empty() {
            return None;
        }
        let (rows, metrics) = (self.number(), self.number());
        let constant = self.shape.columns.iter().filter(|column| **column != Column::Time).count();
        let names = if self.shape.layout == Layout::Long { metrics } else { 0 };
        let mut texts = Vec::with_capacity(constant + names);
        for _ in 0..constant + names {
            let length = self.number();
            texts.push(self.take(length));
        }
        let (times, values) = (self.take(8 * rows), self.take(8 * rows * metrics));
        Some(Part { rows, metrics, texts, times, values })
    }
}
