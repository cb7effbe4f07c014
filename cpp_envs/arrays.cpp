#include "arrays.hpp"

namespace leanfast {

namespace {

// The part of DLPack 1.x's C exchange table that is used here (dlpack.h, DLPackExchangeAPI).
struct DLTensor {
  void* data;
  i32 device_type, device_id;
  i32 ndim;
  u8 code, bits;
  unsigned short lanes;
  i64 *shape, *strides;
  u64 byte_offset;
};

struct ExchangeTable {
  u32 major, minor;
  ExchangeTable* previous;
  void *allocator, *managed_from, *managed_to;
  int (*view)(void* object, DLTensor* out);
};

// The last type seen is remembered, and kept alive: another one must not come to lie in its place.
const ExchangeTable* exchange_table(PyTypeObject* type) {
  static PyTypeObject* known_type = nullptr;
  static const ExchangeTable* known_table = nullptr;
  if (type == known_type) return known_table;
  const ExchangeTable* table = nullptr;
  PyObject* capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (capsule == nullptr) {
    PyErr_Clear();
  } else {
    if (PyCapsule_CheckExact(capsule)) {
      table = static_cast<const ExchangeTable*>(
          PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    }
    Py_DECREF(capsule);
  }
  if (table != nullptr && (table->major != 1 || table->view == nullptr)) table = nullptr;
  if (table != nullptr) {
    Py_INCREF(type);
    Py_XDECREF(known_type);
    known_type = type;
    known_table = table;
  }
  return table;
}

ArrayView from_dlpack(const DLTensor& t) {
  static constexpr char kinds[] = {'i', 'u', 'f', '?', '?', 'c', 'b'};
  constexpr i32 cpu = 1, pinned = 3;
  ArrayView v;
  v.data = static_cast<char*>(t.data) + t.byte_offset;
  v.kind = t.code < sizeof(kinds) ? kinds[t.code] : '?';
  v.bits = t.bits;
  v.rank = t.ndim;
  v.on_cpu = t.device_type == cpu || t.device_type == pinned;
  i64 stride = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    v.shape[d] = t.shape[d];
    if (t.strides != nullptr && t.shape[d] != 1 && t.strides[d] != stride) v.contiguous = false;
    stride *= t.shape[d];
  }
  return v;
}

ArrayView from_numpy(const py::array& a) {
  ArrayView v;
  v.data = const_cast<void*>(a.data());
  const char order = a.dtype().byteorder();
  v.kind = order == '=' || order == '|' ? a.dtype().kind() : '?';
  v.bits = static_cast<int>(a.itemsize()) * 8;
  v.rank = static_cast<int>(a.ndim());
  v.writable = a.writeable();
  i64 stride = a.itemsize();
  for (int d = v.rank - 1; d >= 0; --d) {
    v.shape[d] = a.shape(d);
    if (a.shape(d) != 1 && a.strides(d) != stride) v.contiguous = false;
    stride *= a.shape(d);
  }
  return v;
}

[[noreturn]] void refuse(py::handle object, const char* name, const std::string& why) {
  throw py::type_error(std::string(name) + " must be a torch tensor or a NumPy array, not " +
                       Py_TYPE(object.ptr())->tp_name + why);
}

// With the library's own reason, less its backtrace: a meta, sparse or wrapped tensor.
[[noreturn]] void refuse_tensor(const char* name) {
  const py::error_already_set error;
  const std::string why = py::str(error.value());
  throw py::value_error(std::string(name) + " must be a dense tensor in CPU memory (" +
                        why.substr(0, why.find('\n')) + ")");
}

}  // namespace

std::string ArrayView::dtype() const {
  if (kind == 'b') return "bool";
  if (kind == 'f') return "float" + std::to_string(bits);
  if (kind == 'i') return "int" + std::to_string(bits);
  if (kind == 'u') return "uint" + std::to_string(bits);
  return "another type of " + std::to_string(bits) + " bits";
}

std::string shape_text(const i64* shape, int rank) {
  std::string text = "(";
  for (int d = 0; d < rank; ++d) text += std::to_string(shape[d]) + (d + 1 < rank ? ", " : "");
  return text + (rank == 1 ? ",)" : ")");
}

std::string ArrayView::shape_text() const { return leanfast::shape_text(shape, rank); }

ArrayView view_array(py::handle object, const char* name) {
  if (const ExchangeTable* table = exchange_table(Py_TYPE(object.ptr()))) {
    DLTensor t{};
    if (table->view(object.ptr(), &t) != 0) refuse_tensor(name);
    if (t.data == nullptr) refuse(object, name, " that has no memory");
    if (t.ndim > ArrayView::max_rank) refuse(object, name, " of more than 8 dimensions");
    return from_dlpack(t);
  }
  if (!py::isinstance<py::array>(object)) refuse(object, name, "");
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (array.ndim() > ArrayView::max_rank) refuse(object, name, " of more than 8 dimensions");
  return from_numpy(array);
}

}  // namespace leanfast
