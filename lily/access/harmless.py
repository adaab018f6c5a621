"""What may appear in a statement that somebody else wrote: a list of what is known to be safe."""

from sqlglot import exp

_SHAPES = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Offset, exp.Fetch, exp.With, exp.CTE, exp.Union, exp.Intersect, exp.Except,
    exp.Subquery, exp.Table, exp.TableAlias, exp.Column, exp.Identifier, exp.Star, exp.Alias,
    exp.Aliases, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Distinct,
    exp.Lateral, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.Interval, exp.Var,
    exp.DataType, exp.DataTypeParam, exp.Qualify, exp.IgnoreNulls, exp.RespectNulls,
    exp.Cube, exp.Rollup, exp.GroupingSets, exp.Dot, exp.Bracket, exp.Slice,
)  # fmt: skip
_OPERATORS = (
    exp.And, exp.Or, exp.Xor, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is,
    exp.In, exp.Between, exp.Like, exp.ILike, exp.SimilarTo, exp.Escape, exp.Add, exp.Sub, exp.Mul,
    exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift,
    exp.BitwiseRightShift, exp.Any, exp.All, exp.Exists, exp.AtTimeZone, exp.RegexpLike,
    exp.RegexpILike, exp.Pow, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONBExtract,
    exp.JSONBExtractScalar, exp.JSONBContains, exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey,
    exp.JSONPathSubscript, exp.ArrayContainsAll, exp.ArrayOverlaps, exp.Collate,
)  # fmt: skip
_FUNCTIONS = (
    exp.Abs, exp.AnyValue, exp.Array, exp.ArrayAgg, exp.ArraySize, exp.Ascii, exp.Avg, exp.Case,
    exp.Cast, exp.Cbrt, exp.Ceil, exp.Chr, exp.Coalesce, exp.Concat, exp.ConcatWs, exp.Corr,
    exp.Count, exp.CountIf, exp.CovarPop, exp.CovarSamp, exp.CumeDist, exp.CurrentDate,
    exp.CurrentTime, exp.CurrentTimestamp, exp.Date, exp.DateAdd, exp.DateDiff, exp.DateSub,
    exp.DateTrunc, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.DenseRank, exp.Exp,
    exp.Extract, exp.First, exp.FirstValue, exp.Floor, exp.Greatest, exp.GroupConcat, exp.Grouping,
    exp.Hour, exp.If, exp.Initcap, exp.JSONArray, exp.JSONArrayAgg, exp.JSONBObjectAgg,
    exp.JSONObject, exp.JSONObjectAgg, exp.Lag, exp.Last, exp.LastValue, exp.Lead, exp.Least,
    exp.Left, exp.Length, exp.Ln, exp.Log, exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.MD5,
    exp.Max, exp.Median, exp.Min, exp.Minute, exp.Month, exp.NthValue, exp.Ntile, exp.Nullif,
    exp.Overlay, exp.Pad, exp.PercentRank, exp.PercentileCont, exp.PercentileDisc, exp.Quarter,
    exp.Rank, exp.RegexpReplace, exp.Repeat, exp.Replace, exp.Reverse, exp.Right, exp.Round,
    exp.RowNumber, exp.SHA2, exp.Second, exp.Sign, exp.SplitPart, exp.Sqrt, exp.StartsWith,
    exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.StrPosition, exp.StrToDate, exp.StrToTime,
    exp.StringToArray, exp.Struct, exp.Substring, exp.Sum, exp.TimeToStr, exp.TimestampTrunc,
    exp.ToChar, exp.ToNumber, exp.Translate, exp.Trim, exp.Trunc, exp.TryCast, exp.Upper,
    exp.Variance, exp.VariancePop, exp.Week, exp.WidthBucket, exp.Year, exp.TsOrDsToDate,
    exp.Unicode, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.Mode, exp.TimestampAdd, exp.UnixToTime,
)  # fmt: skip
# Functions that the parser has no word for, by name; they only look at their arguments.
_NAMED = frozenset(
    ("age", "bool_and", "bool_or", "btrim", "char_length", "date_part", "json_agg", "jsonb_agg",
     "json_build_array", "json_build_object", "jsonb_build_array", "jsonb_build_object", "mod",
     "octet_length", "row_to_json", "to_date", "to_json", "to_jsonb", "to_timestamp", "every",
     "cardinality", "array_length", "array_to_string", "string_agg", "nullif", "concat")
)  # fmt: skip
_ALLOWED = frozenset((*_SHAPES, *_OPERATORS, *_FUNCTIONS))
# Types that are names of things in the catalog, or unknown, would tell of what is there.
_TYPES_REFUSED = {exp.DataType.Type.USERDEFINED}


def refusal(node: exp.Expr) -> str | None:
    """Why this part of a statement is not allowed; None if it is."""
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return None if name in _NAMED else f"the function {name} is not known to be harmless"
    if type(node) not in _ALLOWED:
        return f"{_called(node)} is not allowed"
    if isinstance(node, exp.DataType) and node.this in _TYPES_REFUSED:
        return f"the type {node.sql()} is not allowed"
    if isinstance(node, exp.Table):
        return _table(node)
    if isinstance(node, exp.Select) and (node.args.get("into") or node.args.get("locks")):
        return "SELECT INTO and FOR UPDATE are not allowed"
    if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier | exp.Star):
        return "a function of a schema is not known to be harmless"
    return None


def _table(node: exp.Table) -> str | None:
    if not isinstance(node.this, exp.Identifier):
        return "a function in place of a table is not allowed"
    extra = [
        k
        for k, v in node.args.items()
        if v and k not in ("this", "db", "catalog", "alias", "joins", "laterals")
    ]
    if extra:
        return f"{extra[0]} of a table is not allowed"
    return None


def _called(node: exp.Expr) -> str:
    return (
        f"the function {node.sql_name().lower()}"
        if isinstance(node, exp.Func)
        else node.key.upper()
    )
